// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A sched_ext scheduler that is linked to the image: what its programs call, and how it is registered. ext.c of the
 * tree sees the same as on a machine where programs for BPF were loaded.
 */
#include "board.h"

#ifdef CONFIG_SCHED_CLASS_EXT

#include <linux/version.h>
#include <linux/bpf.h>
#include <linux/bpf_mem_alloc.h>
#include <linux/btf.h>
#include <linux/hash.h>
#include <linux/hrtimer.h>
#include <linux/jhash.h>
#include <linux/sched.h>
#include <linux/sched/ext.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <trace/events/sched_ext.h>
#include "scheduler.h"

/* ---- maps as tables ---- */

struct entry {
	struct hlist_node node;
	/* The key, then the value. */
	u64 bytes[];
};

/* A scheduler's variable begins with the place of its map. */
static struct schedlab_map *map_of(void *of)
{
	return *(struct schedlab_map **)of;
}

static bool is_per_cpu(struct schedlab_map *map)
{
	return map->type == BPF_MAP_TYPE_PERCPU_ARRAY || map->type == BPF_MAP_TYPE_PERCPU_HASH;
}

static size_t stride(struct schedlab_map *map)
{
	return round_up(map->value_bytes, 8);
}

/* All values of one key. */
static size_t room(struct schedlab_map *map)
{
	return stride(map) * (is_per_cpu(map) ? schedlab_cpus : 1);
}

static void *of_cpu(struct schedlab_map *map, void *value, int cpu)
{
	return value && is_per_cpu(map) ? value + cpu * stride(map) : value;
}

static void start_map(struct schedlab_map *map)
{
	*(struct schedlab_map **)map->of = map;
	switch (map->type) {
	case BPF_MAP_TYPE_ARRAY:
	case BPF_MAP_TYPE_PERCPU_ARRAY:
	case BPF_MAP_TYPE_QUEUE:
	case BPF_MAP_TYPE_STACK:
		map->values = schedlab_take(room(map) * map->entries);
		break;
	case BPF_MAP_TYPE_ARRAY_OF_MAPS:
		break;
	case BPF_MAP_TYPE_TASK_STORAGE:
		map->key_bytes = sizeof(struct task_struct *);
		map->entries = U32_MAX;
		fallthrough;
	case BPF_MAP_TYPE_HASH:
	case BPF_MAP_TYPE_PERCPU_HASH:
		map->bucket_bits = clamp(order_base_2(map->entries), 6, 14);
		map->buckets = schedlab_take(sizeof(*map->buckets) << map->bucket_bits);
		break;
	default:
		schedlab_stop("the scheduler's map '%s' is of type %u (enum bpf_map_type), which is not simulated",
			      map->name, map->type);
	}
}

static struct hlist_head *bucket(struct schedlab_map *map, const void *key)
{
	return &map->buckets[hash_32(jhash(key, map->key_bytes, 0), map->bucket_bits)];
}

static void *value_of(struct schedlab_map *map, struct entry *entry)
{
	return (void *)entry->bytes + round_up(map->key_bytes, 8);
}

/* Not memcmp: the kernel's takes time, and how many keys share a bucket depends on where tasks lie in memory. */
static bool is_same(const u8 *a, const u8 *b, u32 bytes)
{
	while (bytes && *a == *b)
		a++, b++, bytes--;
	return !bytes;
}

static struct entry *find_entry(struct schedlab_map *map, const void *key)
{
	struct entry *entry;

	hlist_for_each_entry(entry, bucket(map, key), node)
		if (is_same((u8 *)entry->bytes, key, map->key_bytes))
			return entry;
	return NULL;
}

static void *new_entry(struct schedlab_map *map, const void *key)
{
	struct entry *entry;

	if (map->count >= map->entries)
		return NULL;
	entry = kzalloc(sizeof(*entry) + round_up(map->key_bytes, 8) + room(map), GFP_ATOMIC);
	memcpy(entry->bytes, key, map->key_bytes);
	hlist_add_head(&entry->node, bucket(map, key));
	map->count++;
	return value_of(map, entry);
}

static int remove_entry(struct schedlab_map *map, const void *key)
{
	struct entry *entry = find_entry(map, key);

	if (!entry)
		return -ENOENT;
	hlist_del(&entry->node);
	kfree(entry);
	map->count--;
	return 0;
}

/* The values of a key on all CPUs. */
static void *look_up(struct schedlab_map *map, const void *key)
{
	struct entry *entry;
	u32 at = *(const u32 *)key;

	if (map->buckets) {
		entry = find_entry(map, key);
		return entry ? value_of(map, entry) : NULL;
	}
	if (at >= map->entries)
		return NULL;
	return map->inner ? map->inner[at] : map->values + at * room(map);
}

void *bpf_map_lookup_elem(void *of, const void *key)
{
	struct schedlab_map *map = map_of(of);

	return of_cpu(map, look_up(map, key), schedlab_cpu);
}

void *bpf_map_lookup_percpu_elem(void *of, const void *key, u32 cpu)
{
	struct schedlab_map *map = map_of(of);

	return cpu < schedlab_cpus ? of_cpu(map, look_up(map, key), cpu) : NULL;
}

long bpf_map_update_elem(void *of, const void *key, const void *value, u64 flags)
{
	struct schedlab_map *map = map_of(of);
	void *to = look_up(map, key);

	if (to && flags == BPF_NOEXIST)
		return -EEXIST;
	if (!to && flags == BPF_EXIST)
		return -ENOENT;
	if (!to && map->buckets)
		to = new_entry(map, key);
	if (!to)
		return -E2BIG;
	memcpy(of_cpu(map, to, schedlab_cpu), value, map->value_bytes);
	return 0;
}

long bpf_map_delete_elem(void *of, const void *key)
{
	struct schedlab_map *map = map_of(of);

	return map->buckets ? remove_entry(map, key) : -EINVAL;
}

static void *in_queue(struct schedlab_map *map, u32 at)
{
	return map->values + (map->first + at) % map->entries * stride(map);
}

long bpf_map_push_elem(void *of, const void *value, u64 flags)
{
	struct schedlab_map *map = map_of(of);

	if (map->count == map->entries) {
		if (flags != BPF_EXIST)
			return -E2BIG;
		map->first = (map->first + 1) % map->entries;
		map->count--;
	}
	memcpy(in_queue(map, map->count++), value, map->value_bytes);
	return 0;
}

long bpf_map_peek_elem(void *of, void *value)
{
	struct schedlab_map *map = map_of(of);

	if (!map->count) {
		memset(value, 0, map->value_bytes);
		return -ENOENT;
	}
	memcpy(value, in_queue(map, map->type == BPF_MAP_TYPE_STACK ? map->count - 1 : 0), map->value_bytes);
	return 0;
}

long bpf_map_pop_elem(void *of, void *value)
{
	struct schedlab_map *map = map_of(of);
	long result = bpf_map_peek_elem(of, value);

	if (result)
		return result;
	if (map->type == BPF_MAP_TYPE_QUEUE)
		map->first = (map->first + 1) % map->entries;
	map->count--;
	return 0;
}

void *bpf_task_storage_get(void *of, struct task_struct *task, void *value, u64 flags)
{
	struct schedlab_map *map = map_of(of);
	void *found;

	if (!task)
		return NULL;
	found = look_up(map, &task);
	if (found || !(flags & BPF_LOCAL_STORAGE_GET_F_CREATE))
		return found;
	found = new_entry(map, &task);
	if (found && value)
		memcpy(found, value, map->value_bytes);
	return found;
}

long bpf_task_storage_delete(void *of, struct task_struct *task)
{
	return remove_entry(map_of(of), &task);
}

/* ---- timers ---- */

struct scx_timer {
	struct hrtimer timer;
	struct schedlab_map *map;
	void *value;
	int (*callback)(void *map, void *key, void *value);
};

static struct scx_timer **timer_of(struct bpf_timer *timer)
{
	return (struct scx_timer **)timer;
}

static enum hrtimer_restart timer_ends(struct hrtimer *timer)
{
	struct scx_timer *of = container_of(timer, struct scx_timer, timer);
	u32 at = of->map->buckets ? 0 : (of->value - of->map->values) / room(of->map);
	void *key = of->map->buckets ? of->value - round_up(of->map->key_bytes, 8) : &at;

	of->callback(of->map->of, key, of->value);
	return HRTIMER_NORESTART;
}

long bpf_timer_init(struct bpf_timer *timer, void *map, u64 clock)
{
	struct scx_timer *made;

	if (*timer_of(timer))
		return -EBUSY;
	if (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME && clock != CLOCK_BOOTTIME)
		return -EINVAL;
	made = kzalloc(sizeof(*made), GFP_ATOMIC);
	made->map = map_of(map);
	made->value = timer;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&made->timer, timer_ends, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
#else
	hrtimer_init(&made->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	made->timer.function = timer_ends;
#endif
	*timer_of(timer) = made;
	return 0;
}

long schedlab_timer_set_callback(struct bpf_timer *timer, void *callback)
{
	if (!*timer_of(timer))
		return -EINVAL;
	(*timer_of(timer))->callback = callback;
	return 0;
}

long bpf_timer_start(struct bpf_timer *timer, u64 time, u64 flags)
{
	struct scx_timer *of = *timer_of(timer);
	enum hrtimer_mode mode = flags & BPF_F_TIMER_ABS ? HRTIMER_MODE_ABS_SOFT : HRTIMER_MODE_REL_SOFT;

	if (flags & ~(u64)(BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN))
		return -EINVAL;
	if (!of || !of->callback)
		return -EINVAL;
	if (flags & BPF_F_TIMER_CPU_PIN)
		mode |= HRTIMER_MODE_PINNED;
	hrtimer_start(&of->timer, ns_to_ktime(time), mode);
	return 0;
}

long bpf_timer_cancel(struct bpf_timer *timer)
{
	struct scx_timer *of = *timer_of(timer);

	return of ? hrtimer_cancel(&of->timer) : -EINVAL;
}

/* ---- further helpers ---- */

u64 bpf_ktime_get_ns(void)
{
	return ktime_get_mono_fast_ns();
}

u32 bpf_get_smp_processor_id(void)
{
	return schedlab_cpu;
}

u32 bpf_get_prandom_u32(void)
{
	return get_random_u32();
}

struct task_struct *bpf_get_current_task_btf(void)
{
	return current;
}

/* Memory of tasks stays, so a reference is nothing to count. */
struct task_struct *bpf_task_from_pid(s32 pid)
{
	return schedlab_task_of_pid(pid);
}

struct task_struct *bpf_task_acquire(struct task_struct *task)
{
	return task;
}

void bpf_task_release(struct task_struct *task)
{
}

void bpf_rcu_read_lock(void)
{
	rcu_read_lock();
}

void bpf_rcu_read_unlock(void)
{
	rcu_read_unlock();
}

/* Masks of CPUs are the tree's own (kernel/bpf/cpumask.c); their memory is the image's. */
int bpf_mem_alloc_init(struct bpf_mem_alloc *of, int size, bool percpu)
{
	/* No objects come from elsewhere, so the field is free to hold their size. */
	of->cache = (void *)(long)size;
	return 0;
}

void *bpf_mem_cache_alloc(struct bpf_mem_alloc *of)
{
	return kmalloc((long)of->cache, GFP_ATOMIC);
}

void bpf_mem_cache_free_rcu(struct bpf_mem_alloc *of, void *at)
{
	kfree(at);
}

/* Programs are trusted with their addresses here; what they get wrong ends the run. */
long copy_from_kernel_nofault(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	return 0;
}

/* ---- words: the arguments of a format lie as 64 bits each, as where a call passes them in memory ---- */

int schedlab_bprintf_prepare(const char *format, u32 bytes, const u64 *words, u32 count, struct bpf_bprintf_data *data)
{
	const size_t room = 512;
	/* The layout of the ABI; an offset of 48 says that no argument is in a register. */
	struct {
		u32 registers, floats;
		const void *memory, *saved;
	} raw = { .registers = 48, .floats = 304, .memory = words };
	va_list of;

	data->bin_args = kzalloc(room, GFP_ATOMIC);
	BUILD_BUG_ON(sizeof(of) != sizeof(raw));
	memcpy(of, &raw, sizeof(of));
	return vbin_printf(data->bin_args, room / sizeof(u32), format, of) * sizeof(u32) > room ? -E2BIG : 0;
}
ALSO(schedlab_bprintf_prepare, bpf_bprintf_prepare);

void bpf_bprintf_cleanup(struct bpf_bprintf_data *data)
{
	kfree(data->bin_args);
}

int bpf_obj_name_cpy(char *to, const char *from, unsigned int bytes)
{
	size_t length = strnlen(from, bytes);
	size_t at;

	for (at = 0; at < length; at++)
		if (!isalnum(from[at]) && from[at] != '_' && from[at] != '.')
			return -EINVAL;
	if (length == bytes)
		return -EINVAL;
	memset(to, 0, bytes);
	memcpy(to, from, length);
	return length;
}

/* ---- delayed work: of what the image has, only the watchdog of ext.c asks for it ---- */

static LIST_HEAD(works);
static struct task_struct *worker;

static int work(void *unused)
{
	current->flags |= PF_WQ_WORKER;
	for (;;) {
		struct work_struct *next;

		set_current_state(TASK_IDLE);
		next = list_first_entry_or_null(&works, struct work_struct, entry);
		if (!next) {
			schedule();
			continue;
		}
		__set_current_state(TASK_RUNNING);
		list_del_init(&next->entry);
		next->func(next);
	}
	return 0;
}

void delayed_work_timer_fn(struct timer_list *timer)
{
	struct delayed_work *of = container_of(timer, struct delayed_work, timer);

	if (list_empty(&of->work.entry))
		list_add_tail(&of->work.entry, &works);
	wake_up_process(worker);
}

bool queue_delayed_work_on(int cpu, struct workqueue_struct *queue, struct delayed_work *of, unsigned long delay)
{
	if (!worker || timer_pending(&of->timer) || !list_empty(&of->work.entry))
		return false;
	of->timer.expires = jiffies + delay;
	add_timer(&of->timer);
	return true;
}

bool cancel_delayed_work_sync(struct delayed_work *of)
{
	return timer_delete(&of->timer);
}

/* ---- registration ---- */

/*
 * Why the kernel is about to take the scheduler off, in case that it does not get so far. It says so in the second
 * line of its dump, and then once more when it has done so.
 */
static char why[256];

static void on_dump(void *unused, const char *line)
{
	static int lines;

	if (++lines == 2)
		strscpy(why, skip_spaces(line), sizeof(why));
}

void schedlab_tell_scheduler(void)
{
	if (!why[0])
		return;
	schedlab_print("sched_ext was taking the scheduler off: ");
	schedlab_print(why);
	schedlab_print("\n");
}

/* When a scheduler is loaded: between the end of the boot and the beginning of a load, which are 500 ms apart. */
#define LOAD_AFTER (100 * NSEC_PER_MSEC)

static struct bpf_struct_ops *known;

int __register_bpf_struct_ops(struct bpf_struct_ops *of)
{
	known = of;
	return 0;
}

void schedlab_cannot(const char *what)
{
	schedlab_stop("the scheduler uses %s, which is not simulated", what);
}

void schedlab_scheduler_ends(const char *name, const char *reason)
{
	/* The kernel has said why. */
	board->stopped = 2;
	for (;;)
		schedlab_to_host();
}

void schedlab_bind(bool on)
{
	set_cpus_allowed_ptr(current, on ? cpumask_of(0) : cpu_possible_mask);
}

/*
 * Members by their places, each word of 32 bits as if it were one: init_member knows those that are not
 * functions, and checks them.
 */
static int take_members(void *to, void *from)
{
	static const struct btf_type plain;
	size_t at;

	for (at = 0; at + sizeof(u32) <= schedlab_scheduler.bytes; at += sizeof(u32)) {
		struct btf_member member = { .offset = at * 8 };
		int result = known->init_member(&plain, &member, to, from);

		if (result < 0)
			return result;
		if (!result)
			*(u32 *)(to + at) = *(u32 *)(from + at);
	}
	return 0;
}

/* Puts the linked scheduler in charge of all ordinary tasks, when those of the load have been made. */
static int load_scheduler(void *unused)
{
	struct schedlab_map *map;
	ktime_t after = ns_to_ktime(LOAD_AFTER);
	void *ops;
	int result;

	schedlab_bind(true);
	set_current_state(TASK_IDLE);
	schedule_hrtimeout(&after, HRTIMER_MODE_REL);
	for (map = schedlab_scheduler.maps; map->of; map++)
		start_map(map);
	schedlab_scheduler.prepare();
	ops = kzalloc(schedlab_scheduler.bytes, GFP_KERNEL);
	result = take_members(ops, schedlab_scheduler.ops);
	if (!result && known->validate)
		result = known->validate(ops);
	if (!result)
		result = known->reg(ops, NULL);
	if (result)
		schedlab_stop("the kernel does not take the scheduler: error %d", -result);
	return 0;
}

void schedlab_start_scheduler(void)
{
	if (!schedlab_scheduler.ops)
		return;
	if (!known)
		schedlab_stop("this kernel did not register struct sched_ext_ops");
	if (register_trace_sched_ext_dump(on_dump, NULL))
		schedlab_stop("a tracepoint of sched_ext cannot be used");
	worker = schedlab_thread(work, NULL, "kworker/u:0");
	schedlab_thread(load_scheduler, NULL, "scx_loader");
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)
#define sched_ext_free sched_ext_dead
#endif

/* A task is gone for good. */
void schedlab_forget(struct task_struct *task)
{
	struct schedlab_map *map;

	if (!schedlab_scheduler.ops)
		return;
	sched_ext_free(task);
	for (map = schedlab_scheduler.maps; map->of; map++)
		if (map->type == BPF_MAP_TYPE_TASK_STORAGE)
			remove_entry(map, &task);
}

#else

void schedlab_start_scheduler(void)
{
}

void schedlab_tell_scheduler(void)
{
}

void schedlab_forget(struct task_struct *task)
{
}

#endif
