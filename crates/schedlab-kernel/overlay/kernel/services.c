// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What the scheduler's code takes from the rest of the kernel: memory, RCU, printing, chance.
 */
#include <linux/version.h>
#include <linux/cgroup.h>
#include <linux/cpuset.h>
#include <linux/kernel.h>
#include <linux/percpu.h>
#include <linux/printk.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include "board.h"

/* ---- memory: sizes in powers of two, each with a list of what is free ---- */

#define SIZES 48

/* Before each piece: the power of two of its size. */
struct piece {
	u64 power;
	struct piece *next;
};
static struct piece *free_pieces[SIZES];

static void *take_new(size_t bytes)
{
	u64 at = ALIGN(board->arena_used, 64);

	board->arena_used = at + bytes;
	if (board->arena_used > board->arena_bytes)
		schedlab_stop("the simulated machine used %llu MiB of memory: use fewer CPUs or tasks",
			      board->arena_bytes >> 20);
	return (void *)board->arena + at;
}

/* Memory that stays. */
void *schedlab_take(size_t bytes)
{
	/* Pages of the arena are zero before they are used. */
	return take_new(bytes);
}

static void *take_piece(size_t bytes)
{
	u64 power = max(6, order_base_2(bytes + 64));
	struct piece *piece = free_pieces[power];

	if (piece) {
		free_pieces[power] = piece->next;
		memset((void *)piece + 64, 0, (1UL << power) - 64);
	} else {
		piece = take_new(1UL << power);
	}
	piece->power = power;
	return (void *)piece + 64;
}

void kfree(const void *at)
{
	struct piece *piece = (void *)at - 64;

	if (ZERO_OR_NULL_PTR(at))
		return;
	piece->next = free_pieces[piece->power];
	free_pieces[piece->power] = piece;
}

void kvfree(const void *at)
{
	kfree(at);
}

void free_percpu(void __percpu *at)
{
}

void kmem_cache_free(struct kmem_cache *cache, void *at)
{
	kfree(at);
}

/* What asks for memory begins with the size, or with the cache, in all trees. */
void *schedlab_kmalloc(size_t size)
{
	return take_piece(size);
}
ALSO(schedlab_kmalloc, __kmalloc);
ALSO(schedlab_kmalloc, __kmalloc_noprof);
ALSO(schedlab_kmalloc, kmalloc_large);
ALSO(schedlab_kmalloc, __kmalloc_large_noprof);
ALSO(schedlab_kmalloc, kmalloc_order);
ALSO(schedlab_kmalloc, __kmalloc_node);
ALSO(schedlab_kmalloc, __kmalloc_node_noprof);
ALSO(schedlab_kmalloc, __kmalloc_track_caller);
ALSO(schedlab_kmalloc, __kmalloc_node_track_caller);
ALSO(schedlab_kmalloc, __kmalloc_node_track_caller_noprof);
ALSO(schedlab_kmalloc, kvmalloc_node);
ALSO(schedlab_kmalloc, __kvmalloc_node_noprof);

void *schedlab_kmalloc_of(struct kmem_cache *cache, gfp_t flags, size_t size)
{
	return take_piece(size);
}
ALSO(schedlab_kmalloc_of, kmalloc_trace);
ALSO(schedlab_kmalloc_of, kmem_cache_alloc_trace);
ALSO(schedlab_kmalloc_of, __kmalloc_cache_noprof);

void *schedlab_kmalloc_on(struct kmem_cache *cache, gfp_t flags, int node, size_t size)
{
	return take_piece(size);
}
ALSO(schedlab_kmalloc_on, kmalloc_node_trace);
ALSO(schedlab_kmalloc_on, kmem_cache_alloc_node_trace);
ALSO(schedlab_kmalloc_on, __kmalloc_cache_node_noprof);

void *schedlab_cache_alloc(unsigned int *cache)
{
	return take_piece(*cache);
}
ALSO(schedlab_cache_alloc, kmem_cache_alloc);
ALSO(schedlab_cache_alloc, kmem_cache_alloc_noprof);
ALSO(schedlab_cache_alloc, kmem_cache_alloc_node);
ALSO(schedlab_cache_alloc, kmem_cache_alloc_node_noprof);

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
/* There, inline code takes pieces of a known size from these (kmalloc_index). */
static unsigned int sizes[] = {
	0, 96, 192, 1 << 3, 1 << 4, 1 << 5, 1 << 6, 1 << 7, 1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13,
};
#define SIZE(index) [index] = (struct kmem_cache *)&sizes[index]
struct kmem_cache *kmalloc_caches[NR_KMALLOC_TYPES][KMALLOC_SHIFT_HIGH + 1] = {
	[0 ... NR_KMALLOC_TYPES - 1] = {
		SIZE(1), SIZE(2), SIZE(3), SIZE(4), SIZE(5), SIZE(6), SIZE(7), SIZE(8), SIZE(9), SIZE(10),
		SIZE(11), SIZE(12), SIZE(13),
	},
};
#endif

/* A cache is the size of its objects. */
void *schedlab_new_cache(const char *name, unsigned int size)
{
	unsigned int *cache = take_piece(sizeof(*cache));

	*cache = size;
	return cache;
}
ALSO(schedlab_new_cache, kmem_cache_create);
ALSO(schedlab_new_cache, __kmem_cache_create_args);

char *kstrdup(const char *text, gfp_t flags)
{
	return text ? strcpy(take_piece(strlen(text) + 1), text) : NULL;
}

const char *kstrdup_const(const char *text, gfp_t flags)
{
	return kstrdup(text, flags);
}

void kfree_const(const void *at)
{
	kfree(at);
}

void *memcpy(void *to, const void *from, size_t bytes)
{
	void *at = to;

	asm volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(bytes) : : "memory");
	return to;
}

void *memset(void *to, int value, size_t bytes)
{
	void *at = to;

	asm volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(value) : "memory");
	return to;
}

/* ---- RCU: a CPU gives back control outside of read sections, so each callback may run at once ---- */

void call_rcu(struct rcu_head *head, rcu_callback_t callback)
{
	callback(head);
}

void call_srcu(struct srcu_struct *of, struct rcu_head *head, rcu_callback_t callback)
{
	callback(head);
}

/* What is freed: its address; before Linux 6.4 the offset of `head` in it. */
void schedlab_free_call_rcu(void *head, unsigned long at)
{
	kfree(at < PAGE_SIZE ? head - at : (void *)at);
}
ALSO(schedlab_free_call_rcu, kvfree_call_rcu);

/* ---- words and chance ---- */

void schedlab_print(const char *text)
{
	for (; *text && board->text_bytes < BOARD_TEXT; text++)
		board->text[board->text_bytes++] = *text;
}

static void print(const char *format, va_list of)
{
	char text[512];

	vscnprintf(text, sizeof(text), format, of);
	schedlab_print(printk_skip_level(text));
}

int _printk(const char *format, ...)
{
	va_list of;

	va_start(of, format);
	print(format, of);
	va_end(of);
	return 0;
}

int _printk_deferred(const char *format, ...)
{
	va_list of;

	va_start(of, format);
	print(format, of);
	va_end(of);
	return 0;
}

/* The image does not know the names of its functions. */
int sprint_symbol(char *to, unsigned long address)
{
	return sprintf(to, "%#lx", address);
}

int sprint_symbol_no_offset(char *to, unsigned long address)
{
	return sprint_symbol(to, address);
}

/* What a kernel warns of on a machine may be harmless; here it would make a result that nobody can trust. */
void warn_slowpath_fmt(const char *file, int line, unsigned int taint, const char *format, ...)
{
	char place[160];
	va_list of;

	snprintf(place, sizeof(place), "WARNING: %s:%d CPU %d: ", file, line, schedlab_cpu);
	schedlab_print(place);
	if (format) {
		va_start(of, format);
		print(format, of);
		va_end(of);
	}
	schedlab_print("\n");
	schedlab_give_up();
}

void panic(const char *format, ...)
{
	va_list of;

	schedlab_print("panic: ");
	va_start(of, format);
	print(format, of);
	va_end(of);
	schedlab_print("\n");
	schedlab_give_up();
	__builtin_unreachable();
}

/* A function of the kernel that is not part of the image was called. */
void schedlab_trap(const char *name)
{
	schedlab_stop("the kernel called %s, which is not simulated", name);
}

/* The state (splitmix64). */
static u64 chance;

void schedlab_seed(u64 seed)
{
	chance = seed;
}

static u64 draw(void)
{
	u64 z = chance += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

u32 get_random_u32(void)
{
	return draw();
}

u32 __get_random_u32_below(u32 limit)
{
	return (draw() >> 32) * limit >> 32;
}

void get_random_bytes(void *to, size_t bytes)
{
	u8 *at = to;

	while (bytes--)
		*at++ = draw();
}

/* ---- CPU sets: every task may use every CPU ---- */

void cpuset_cpus_allowed(struct task_struct *task, struct cpumask *mask)
{
	cpumask_copy(mask, cpu_possible_mask);
}

bool capable(int right)
{
	return true;
}

bool static_key_initialized = true;
enum system_states system_state;
struct css_set init_css_set;
struct cred init_cred = { .usage = ATOMIC_INIT(4) };
