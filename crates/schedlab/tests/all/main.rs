//! The tests of this crate, in one program: it is linked once.

#![expect(
    clippy::unwrap_used,
    reason = "tests stop at the first surprise, read files and start peers"
)]

#[macro_use]
mod missing;

#[path = "../../../schedlab-draw/tests/all/browser.rs"]
mod browser;
mod capabilities;
mod command_line;
mod cpu_group;
mod decisions;
mod doctor;
mod draw;
mod drop_in;
mod experiment;
mod flames;
mod gallery;
mod guest;
mod guide;
mod guide_page;
mod hostile_text;
mod jobs;
mod jobs_posts;
mod judge;
mod kills;
mod knobs;
mod links;
mod load;
mod load_command;
mod load_defects;
mod load_dies;
mod load_site;
mod locks;
mod machine_lock;
mod machine_sharing;
mod machines;
mod off_cpu;
mod page_faults;
mod page_numbers;
mod parsers;
mod patched_kernels;
mod patience;
mod perf_agreement;
mod perfetto_states;
mod placements;
mod planted_waits;
mod record;
mod record_elsewhere;
mod record_request;
mod record_via;
mod replay;
mod report_print;
mod request_plants;
mod rt_app;
mod schemas;
mod second_count;
mod sim;
mod slow;
mod table_width;
mod temporary;
mod tour;
mod trace_answers;
mod trace_convert;
mod trace_cut;
mod tune;
mod user_stacks;
mod validation;
mod vm;
mod vm_build;
mod vm_cache;
mod vm_fake;
mod vm_guest;
mod watch;
mod watch_deployed;
mod watch_hotplug;
mod watch_service;
mod why;
mod why_live;
mod writers;
