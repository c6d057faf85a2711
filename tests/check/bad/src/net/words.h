/* What the room check must refuse: the network names phases of training, without an include; a comment may speak of a stage. */
enum culm_phase { CULM_PHASE_LOAD, CULM_PHASE_FORWARD, CULM_PHASE_BACKWARD };
static const char *const names[] = {"load", "forward", "backward"}; /* "frc" */
