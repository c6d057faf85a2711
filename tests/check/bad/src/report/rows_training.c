/* What the room check must let pass: a job's own table. */
static const char *const unit = "tokens";
