/* What the room check must refuse: base knows tensors, and a header is named without its room. */
#include "base/status.h"
#include "tensor/tensor.h"
#include "tensor.h"
