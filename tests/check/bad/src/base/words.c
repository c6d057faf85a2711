/* What the room check must refuse: base knows tensors by name. */
struct culm_tensor;
void culm_fill(struct culm_tensor *tensor, int firstGradients);
