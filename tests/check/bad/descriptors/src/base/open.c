/* What the descriptor check must refuse: each line that says so opens what a child would inherit. */
#include <fcntl.h>

/* A function of this file, a member and a comment may say open(path, 0). */
static int socket(int number) { return number; }

void culm_open_all(struct culm_table *t, const char *path, int *fd) {
    fd[0] = open(path, O_RDONLY);                       /* refused */
    fd[1] = open(path, O_RDONLY | O_CLOEXEC);
    fd[2] = t->open(path, O_RDONLY) + t->ops.accept(path) + socket(2);
    t->say("open(path, 0)");
    t->file = fopen(path, "r");                         /* refused */
    t->file = fopen(path, "re");
    pipe(fd);                                           /* refused */
    pipe2(fd, 0);                                       /* refused */
    pipe2(fd, O_CLOEXEC | O_NONBLOCK);
    fd[3] = dup(fd[0]);                                 /* refused */
    dup2(fd[0], fd[1]);                                 /* refused */
    dup2(fd[0], STDOUT_FILENO);
    fd[4] = fcntl(fd[0], F_DUPFD, 3);                   /* refused */
    fd[4] = fcntl(fd[0], F_DUPFD_CLOEXEC, 3);
    fd[5] = accept(fd[0], 0, 0);                        /* refused */
    fd[5] = accept4(fd[0], 0, 0,
                    SOCK_NONBLOCK);                     /* refused, above */
    fd[6] = mkstemp(t->name);                           /* refused */
    fd[7] = eventfd(0, EFD_NONBLOCK);                   /* refused */
    fd[8] = memfd_create("x", 0);                       /* refused */
    fd[9] = openat(fd[0], path, t->flags(O_RDONLY), 0); /* refused */
    t->json = json_load_file(path, 0, 0);               /* refused */
    t->child = popen(path, "re");                       /* refused */
}
