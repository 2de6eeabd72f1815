//! The entries of the registry, by what measures them.

use super::{Entry, Form};
use schedlab_model::Better::{self, Higher, Lower, Neither};
use schedlab_model::Unit::{self, Bytes, Count, Fraction, Nanoseconds, PerSecond, Seconds};

const fn value(name: &'static str, unit: Unit, better: Better, about: &'static str) -> Entry {
    Entry { name, unit, better, form: Form::Value, about }
}

const fn counter(name: &'static str, unit: Unit, better: Better, about: &'static str) -> Entry {
    Entry { name, unit, better, form: Form::Counter, about }
}

const fn series(name: &'static str, unit: Unit, better: Better, about: &'static str) -> Entry {
    Entry { name, unit, better, form: Form::Series, about }
}

/// All metrics that runs store, except those that hooks name.
pub const ENTRIES: &[Entry] = &[
    // Every load.
    value(
        "time_s",
        Seconds,
        Lower,
        "From the moment in which the tasks are let go to their end; of a command, its wall-clock time.",
    ),
    value("start_s", Seconds, Lower, "From the start of the first task until all tasks are ready."),
    value(
        "steady_s",
        Seconds,
        Lower,
        "From the moment in which the tasks are let go until the first one ends.",
    ),
    value("tail_s", Seconds, Lower, "From the end of the first task to the end of the last one."),
    value("exit_s", Seconds, Lower, "From the end of the last task until all tasks are gone."),
    value("tasks", Count, Neither, "Tasks of the load."),
    value(
        "warm_up_s",
        Seconds,
        Neither,
        "How long the run took to become steady, by its rate in each second.",
    ),
    value(
        "cpus_idle",
        Count,
        Neither,
        "Mean number of CPUs that idled during the run, of all that are online.",
    ),
    value(
        "unfairness_groups",
        Fraction,
        Lower,
        "Distance from the least to the most favoured group, as a fraction of the mean.",
    ),
    value(
        "unfairness_tasks",
        Fraction,
        Lower,
        "Distance from the least to the most favoured task, as a fraction of the mean.",
    ),
    // What the kernel counts.
    value(
        "switches_voluntary",
        Count,
        Neither,
        "Context switches of tasks that blocked, counted by the kernel.",
    ),
    value(
        "switches_involuntary",
        Count,
        Neither,
        "Context switches of tasks that stayed runnable, counted by the kernel.",
    ),
    value(
        "migrations",
        Count,
        Neither,
        "Moves of the tasks to another CPU, counted by the kernel.",
    ),
    value(
        "run_delay_s",
        Seconds,
        Neither,
        "Time in which the tasks were runnable and did not run, summed over the tasks.",
    ),
    value("cpu_s", Seconds, Lower, "CPU time of the tasks, in user mode and in the kernel."),
    value("cpu_user_s", Seconds, Neither, "CPU time of the tasks in user mode."),
    value("cpu_system_s", Seconds, Neither, "CPU time of the tasks in the kernel."),
    value("faults_minor", Count, Neither, "Page faults without I/O."),
    value("faults_major", Count, Neither, "Page faults with I/O."),
    value("main_run_delay_s", Seconds, Neither, "Run delay of a command's first thread."),
    value("main_timeslices", Count, Neither, "Timeslices of a command's first thread."),
    value("exit_code", Count, Neither, "Exit code of a command."),
    value(
        "newidle_cost_ns",
        Nanoseconds,
        Neither,
        "The most that balancing for a CPU that becomes idle costs, as the code of `sim:kernel=TREE` finds at the end.",
    ),
    // The machine.
    value("others_cpu_s", Seconds, Neither, "CPU time of processes outside the run."),
    value("load_before", Count, Neither, "CPUs that were busy in the second before the run."),
    value("steal_s", Seconds, Neither, "CPU time that the hypervisor gave to others."),
    value("frequency_hz_mean", PerSecond, Neither, "Mean frequency of the CPUs during the run."),
    value(
        "busy_per_cpu_s_min",
        Seconds,
        Neither,
        "Busy time of the CPU that was busy for the shortest time.",
    ),
    value(
        "busy_per_cpu_s_max",
        Seconds,
        Neither,
        "Busy time of the CPU that was busy for the longest time.",
    ),
    value(
        "run_delay_per_cpu_s_min",
        Seconds,
        Neither,
        "Run delay on the CPU with the least run delay.",
    ),
    value(
        "run_delay_per_cpu_s_max",
        Seconds,
        Neither,
        "Run delay on the CPU with the most run delay.",
    ),
    value("switches_per_cpu_min", Count, Neither, "Context switches of the CPU with the fewest."),
    value("switches_per_cpu_max", Count, Neither, "Context switches of the CPU with the most."),
    value(
        "slow_controller_fraction",
        Fraction,
        Lower,
        "CPU time of the controller that slows CPUs, as a fraction of the run's time.",
    ),
    // The trace of a recorded run; what its events tell are totals of questions (schedlab_timeline).
    value("trace_events_lost", Count, Lower, "Events that the kernel could not record."),
    // schbench.
    series(
        "wakeup_latency_ns",
        Nanoseconds,
        Lower,
        "From the waker's stamp, or the time at which a timer is due, to the first moment in which the task runs.",
    ),
    series(
        "request_latency_ns",
        Nanoseconds,
        Lower,
        "Sleep, lock and work of a request; with a rate, from the moment in which it is due.",
    ),
    counter("requests", Count, Higher, "Requests that were completed."),
    counter("requests_offered", Count, Neither, "Requests that came due in an open loop."),
    counter("requests_dropped", Count, Lower, "Requests that found a full queue."),
    series("queue_depth", Count, Neither, "Requests that wait when one more comes."),
    // hackbench.
    series(
        "message_latency_ns",
        Nanoseconds,
        Lower,
        "From just before the write of a message to after its read.",
    ),
    counter("messages", Count, Higher, "Messages that were received."),
    // The simple loads.
    series("round_trip_ns", Nanoseconds, Lower, "From sending the token to having it back."),
    counter("round_trips", Count, Higher, "Round trips of the token."),
    series("round_ns", Nanoseconds, Lower, "From one barrier to the next."),
    series("barrier_wait_ns", Nanoseconds, Lower, "From reaching the barrier to passing it."),
    counter("rounds", Count, Higher, "Barriers that all tasks passed."),
    series("lock_wait_ns", Nanoseconds, Lower, "From asking for the lock to having it."),
    series("hold_ns", Nanoseconds, Lower, "From having the lock to giving it back."),
    counter("sections", Count, Higher, "How often the lock was taken and given back."),
    series("burst_ns", Nanoseconds, Lower, "Time that a fixed piece of work takes."),
    counter("loops", Count, Higher, "Fixed pieces of work that were done."),
    counter("datagrams", Count, Higher, "Datagrams that were sent."),
    counter("bytes", Bytes, Higher, "Bytes that were sent, or read and written in memory."),
    series("copy_ns", Nanoseconds, Lower, "Time of a sweep a = b over an array."),
    series("scale_ns", Nanoseconds, Lower, "Time of a sweep a = k b over an array."),
    series("add_ns", Nanoseconds, Lower, "Time of a sweep a = b + c over an array."),
    series("triad_ns", Nanoseconds, Lower, "Time of a sweep a = b + k c over an array."),
    // rt-app.
    series("run_ns", Nanoseconds, Lower, "Time that a run event takes."),
    series(
        "slack_ns",
        Nanoseconds,
        Higher,
        "Time left when a task comes to its timer; 0 for a missed one.",
    ),
    series("period_ns", Nanoseconds, Neither, "From one activation of a task to the next."),
    counter("activations", Count, Higher, "Loops of tasks that were begun."),
    counter("timers_missed", Count, Lower, "Timers that were over when the task came to them."),
    counter("forks_refused", Count, Lower, "Forks that found all slots of the plan in use."),
    // app.
    series(
        "handover_latency_ns",
        Nanoseconds,
        Lower,
        "From handing over an item to the moment in which a consumer takes it.",
    ),
    series(
        "collection_ns",
        Nanoseconds,
        Lower,
        "Time of a collection, in which all other tasks stand still.",
    ),
    counter("items", Count, Higher, "Items that were consumed."),
    // jobs.
    value(
        "run_time_s",
        Seconds,
        Lower,
        "From the start of the first job to the end of the last one.",
    ),
    value("concurrency", Count, Higher, "Mean number of jobs that run at once."),
    value("idle_s", Seconds, Lower, "Time in which workers ran no job, summed over the workers."),
    value("impeded_s", Seconds, Lower, "Time in which fewer than two workers ran a job."),
    value(
        "starved_ns_max",
        Nanoseconds,
        Lower,
        "The longest time for which a due job waited while a worker had no job and could run.",
    ),
    value(
        "inflation",
        Count,
        Lower,
        "Measured length of the jobs over their length on a CPU of their own.",
    ),
    value(
        "management_ns",
        Nanoseconds,
        Lower,
        "Time that workers spent on choosing jobs, summed over the workers.",
    ),
    value(
        "back_off_ns",
        Nanoseconds,
        Lower,
        "Time in which workers backed off from each other, summed over the workers.",
    ),
    series(
        "lateness_ns",
        Nanoseconds,
        Lower,
        "From the moment in which a job could start to its start.",
    ),
    series("gap_ns", Nanoseconds, Lower, "Pause of a worker between two jobs."),
    counter("jobs", Count, Higher, "Jobs that were done."),
];
