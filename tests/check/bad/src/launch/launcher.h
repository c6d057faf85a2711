/* What the room check must refuse: the launcher, which starts any job, knows one of them, at first or
 * second hand or by its words. */
#include "cluster/host.h"
#include "train/config.h"
#include "run/train_launch.h"

int culm_launcher_pipelines(void);
