/* What the room check must refuse: what shows any job knows what one of them counts. */
static const char *const unit = "tokens";
