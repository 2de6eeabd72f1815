/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the image and a sched_ext scheduler that is linked to it know of each other. */
#ifndef SCHEDLAB_SCHEDULER_H
#define SCHEDLAB_SCHEDULER_H

#include <linux/types.h>

struct hlist_head;

/* A map, as its declaration says it; the last one has no place. */
struct schedlab_map {
	/* The scheduler's variable. */
	void *of;
	const char *name;
	u32 type, key_bytes, value_bytes, entries;
	/* Of a map of maps. */
	void **inner;
	/* Of all but hashes: the values; the first one of a queue, and how many there are. */
	void *values;
	u32 first, count;
	struct hlist_head *buckets;
	u32 bucket_bits;
};

struct schedlab_scheduler {
	void *ops;
	size_t bytes;
	void (*prepare)(void);
	struct schedlab_map *maps;
};

/* All zeros if no scheduler is linked. */
extern const struct schedlab_scheduler schedlab_scheduler;

void schedlab_scheduler_ends(const char *name, const char *reason) __attribute__((noreturn));
/* Keeps who runs now on the first CPU, where the user half of a scheduler would load it, or lets it go. */
void schedlab_bind(bool on);

#endif
