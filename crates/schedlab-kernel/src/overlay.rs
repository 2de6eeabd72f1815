//! The overlay: an architecture for the kernel's own build, whose CPUs are simulated.
//!
//! Its files are under `GPL-2.0-only OR MIT`. They are compiled with the kernel's headers, on the machine of who uses
//! them; what comes out is under the kernel's licence and stays there.

macro_rules! file {
    ($path:literal) => {
        ($path, include_str!(concat!("../overlay/", $path)))
    };
}

/// Each file by its path below `arch/schedlab` of a tree.
pub(crate) const FILES: &[(&str, &str)] = &[
    file!("Kbuild"),
    file!("Kconfig"),
    file!("Kconfig.debug"),
    file!("Makefile"),
    file!("configs/schedlab_defconfig"),
    file!("include/asm/Kbuild"),
    file!("include/asm/atomic.h"),
    file!("include/asm/cache.h"),
    file!("include/asm/cmpxchg.h"),
    file!("include/asm/cpu.h"),
    file!("include/asm/current.h"),
    file!("include/asm/elf.h"),
    file!("include/asm/extable.h"),
    file!("include/asm/irq_work.h"),
    file!("include/asm/irqflags.h"),
    file!("include/asm/kvm_para.h"),
    file!("include/asm/mmu.h"),
    file!("include/asm/mmu_context.h"),
    file!("include/asm/mmzone.h"),
    file!("include/asm/page.h"),
    file!("include/asm/paravirt.h"),
    file!("include/asm/paravirt_api_clock.h"),
    file!("include/asm/percpu.h"),
    file!("include/asm/pgtable.h"),
    file!("include/asm/processor.h"),
    file!("include/asm/ptrace.h"),
    file!("include/asm/smp.h"),
    file!("include/asm/sparsemem.h"),
    file!("include/asm/spinlock.h"),
    file!("include/asm/spinlock_types.h"),
    file!("include/asm/string.h"),
    file!("include/asm/switch_to.h"),
    file!("include/asm/syscall.h"),
    file!("include/asm/thread_info.h"),
    file!("include/asm/tlb.h"),
    file!("include/asm/topology.h"),
    file!("include/asm/unistd.h"),
    file!("include/asm/user.h"),
    file!("include/asm/vmalloc.h"),
    file!("include/uapi/asm/Kbuild"),
    file!("include/uapi/asm/bitsperlong.h"),
    file!("include/uapi/asm/bpf_perf_event.h"),
    file!("include/uapi/asm/byteorder.h"),
    file!("include/uapi/asm/ptrace.h"),
    file!("include/uapi/asm/setup.h"),
    file!("include/uapi/asm/sigcontext.h"),
    file!("include/uapi/asm/unistd.h"),
    file!("kernel/Makefile"),
    file!("kernel/asm-offsets.c"),
    file!("kernel/board.h"),
    file!("kernel/frequency.c"),
    file!("kernel/knobs.c"),
    file!("kernel/machine.c"),
    file!("kernel/scheduler.h"),
    file!("kernel/scx.c"),
    file!("kernel/services.c"),
    file!("kernel/tasks.c"),
    file!("scx/bpf/bpf_core_read.h"),
    file!("scx/bpf/bpf_helpers.h"),
    file!("scx/bpf/bpf_tracing.h"),
    file!("scx/end.h"),
    file!("scx/scx/common.bpf.h"),
    file!("scx/vmlinux.h"),
];

/// Lays out the image and gives it its address.
pub(crate) const LAYOUT: &str = include_str!("../overlay/image.lds");
/// Names that stand for memory: the image only takes their address, or reads zeros.
pub(crate) const DATA: &str = include_str!("../overlay/data.txt");
/// Functions of the rest of the kernel that do nothing here and return 0. All others that the image does not have
/// end the run by their name.
pub(crate) const NOTHING: &str = include_str!("../overlay/nothing.txt");

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    fn below(folder: &Path, all: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { below(&path, all) } else { all.push(path) }
        }
    }

    #[test]
    fn each_file_of_the_overlay_is_in_the_program_and_says_its_licence() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("overlay");
        let mut all = Vec::new();
        below(&root, &mut all);
        for path in &all {
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
            let text = std::fs::read_to_string(path).unwrap();
            let first = text.lines().next().unwrap_or_default();
            assert!(
                first.contains("SPDX-License-Identifier: GPL-2.0-only OR MIT"),
                "{name}: {first}"
            );
            let beside = ["image.lds", "data.txt", "nothing.txt"].contains(&name);
            assert!(beside || FILES.iter().any(|(known, _)| *known == name), "{name} is left out");
        }
        assert_eq!(all.len(), FILES.len() + 3);
    }
}
