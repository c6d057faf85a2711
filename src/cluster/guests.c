/* A doubly linked list. */
#include "cluster/guests.h"

#include <stddef.h>

void culm_guests_add(struct culm_guests *guests, struct culm_guest *guest, uint64_t now_ns) {
    *guest = (struct culm_guest){.older = guests->newest, .since_ns = now_ns};
    *(guest->older ? &guest->older->newer : &guests->oldest) = guest;
    guests->newest = guest;
    guests->count++;
}

void culm_guests_remove(struct culm_guests *guests, struct culm_guest *guest) {
    *(guest->older ? &guest->older->newer : &guests->oldest) = guest->newer;
    *(guest->newer ? &guest->newer->older : &guests->newest) = guest->older;
    guest->older = guest->newer = NULL;
    guests->count--;
}
