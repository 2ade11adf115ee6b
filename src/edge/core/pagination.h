/* A page of the sandboxes that a caller sees, as clients of others ask for it: with a limit, and a
 * text that says where the next page begins. */
#ifndef API_BOX_PAGE_H
#define API_BOX_PAGE_H

#include "api/call.h"

enum { BOX_PAGE_CURSOR = 64 + ID_MAX };

struct box_page {
    struct call *call;
    struct store_query query; /* answered, with one row more than the limit if there are more */
    size_t limit;
    void (*answer)(struct box_page *p);
};

/* The first member of what calloc() gave, which becomes the call's. */
void box_page_init(struct box_page *p, struct call *c, void (*answer)(struct box_page *p));
/* From the parameter of that name: behind which row. False: it is answered. */
bool box_page_after(struct box_page *p, const char *parameter);
void box_page_cursor(const struct sandbox_record *last, char ret[BOX_PAGE_CURSOR]);
/* Those with these labels, beside those that the caller's must have. False: it is answered. */
bool box_page_labels(struct box_page *p, const struct json_map *asked);
/* Asks for as many as the parameter `limit` says. */
void box_page_ask(struct box_page *p, uint64_t usual, uint64_t most);

#endif
