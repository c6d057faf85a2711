/* See docs/absent.md. */
/* And docs/page.md. */
const char *const fine = "see 'culm train --set KEY' and 'culm train "
                         "--help', and 'culm %s'";
const char *const text = "see 'culm train "
                         "--gone'";
