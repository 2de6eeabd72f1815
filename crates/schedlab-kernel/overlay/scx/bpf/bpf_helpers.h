/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What programs for BPF call, as functions of the image (kernel/scx.c), and how they say what is what. */
#ifndef SCHEDLAB_BPF_HELPERS_H
#define SCHEDLAB_BPF_HELPERS_H

/* schedlab reads from the text which variables are maps, and which one is the table of operations. */
#ifdef SCHEDLAB_LIST
#define SEC(name) schedlab_sec(name)
#define __uint(name, value) schedlab_uint(name, value)
#define __type(name, of) schedlab_type(name, of)
#define __array(name, of) schedlab_array(name, of)
#else
#define SEC(name)
#define __uint(name, value) int (*name)[value]
#define __type(name, of) typeof(of) *name
#define __array(name, of) typeof(of) *name[]
#endif
#define __ksym
#define __kptr
#define __hidden
#define __arg_ctx
#define __arg_nonnull
#define bpf_ksym_exists(of) (&(of) != NULL)

/* ---- maps ---- */

void *bpf_map_lookup_elem(void *map, const void *key);
void *bpf_map_lookup_percpu_elem(void *map, const void *key, u32 cpu);
long bpf_map_update_elem(void *map, const void *key, const void *value, u64 flags);
long bpf_map_delete_elem(void *map, const void *key);
long bpf_map_push_elem(void *map, const void *value, u64 flags);
long bpf_map_pop_elem(void *map, void *value);
long bpf_map_peek_elem(void *map, void *value);
void *bpf_task_storage_get(void *map, struct task_struct *task, void *value, u64 flags);
long bpf_task_storage_delete(void *map, struct task_struct *task);

/* ---- time, place, chance ---- */

u64 bpf_ktime_get_ns(void);
u32 bpf_get_smp_processor_id(void);
u32 bpf_get_prandom_u32(void);
struct task_struct *bpf_get_current_task_btf(void);
long bpf_timer_init(struct bpf_timer *timer, void *map, u64 flags);
/* Its second argument is a function of a map, a key and a value, with types of its own. */
#define bpf_timer_set_callback(timer, callback) schedlab_timer_set_callback(timer, (void *)(callback))
long schedlab_timer_set_callback(struct bpf_timer *timer, void *callback);
long bpf_timer_start(struct bpf_timer *timer, u64 time, u64 flags);
long bpf_timer_cancel(struct bpf_timer *timer);

/* ---- memory ---- */

static inline long bpf_probe_read_kernel(void *to, u32 bytes, const void *from)
{
	memcpy(to, from, bytes);
	return 0;
}

/* Returns how many bytes it wrote. */
static inline long bpf_probe_read_kernel_str(void *to, u32 bytes, const void *from)
{
	ssize_t written;

	if (!bytes || !from)
		return 0;
	written = strscpy((char *)to, (const char *)from, bytes);
	return written < 0 ? bytes : written + 1;
}

#define bpf_kptr_xchg(place, value) ((typeof(value))__sync_lock_test_and_set((void **)(place), (void *)(value)))

/* ---- loops ---- */

#define BPF_MAX_LOOPS (8 * 1024 * 1024)

#define bpf_for(at, from, to)								\
	for (int at_ = (from), to_ = (to); at_ < to_ && (((at) = at_), 1); at_++)
#define bpf_repeat(times)								\
	for (int at_ = 0, to_ = (times); at_ < to_; at_++)
#define bpf_for_each(kind, at, of...)							\
	for (struct bpf_iter_##kind ___it						\
		     __attribute__((cleanup(bpf_iter_##kind##_destroy))),		\
	     *begun_ = (bpf_iter_##kind##_new(&___it, of), (void *)NULL);		\
	     !begun_ && ((at) = bpf_iter_##kind##_next(&___it)); )

static inline long bpf_loop(u32 times, void *each, void *of, u64 flags)
{
	long (*call)(u64, void *) = each;
	u32 at;

	for (at = 0; at < times; at++)
		if (call(at, of))
			return at + 1;
	return times;
}

/* ---- words: what is printed to the kernel's trace is not kept ---- */

#define bpf_printk(format, of...) ({ if (0) no_printk(format, ##of); 0; })

#define ___bpf_nth(_, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, n, ...) n
#define ___bpf_narg(of...) ___bpf_nth(_, ##of, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define ___bpf_fill(to, of...) do {							\
	unsigned long long all_[] = { of };						\
											\
	__builtin_memcpy(to, all_, sizeof(all_));					\
} while (0)

#endif
