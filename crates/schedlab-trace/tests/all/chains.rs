//! Call chains of a perf.data become the stacks that other traces hold.

use crate::perf_file::chains;
use schedlab_model::{EventSource, What};
use schedlab_trace::{
    Function, FunctionNames, KernelId, MappedFile, Names, Options, open_bytes, open_bytes_with,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const KERNEL: u64 = -128_i64 as u64;
const USER: u64 = -512_i64 as u64;

/// Knows a kernel that lies elsewhere, and one program.
#[derive(Debug, Default)]
struct Known {
    kernel: bool,
    asked: AtomicUsize,
}

impl FunctionNames for Known {
    fn kernel(&self, _: &KernelId<'_>) -> Result<Vec<u8>, (String, String)> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let text = "ffffffff82000000 T _text\nffffffff82000000 T _stext\nffffffff82000010 T wait\n\
                    ffffffff82000200 t call\nffffffff82000800 D data\n";
        self.kernel.then(|| text.into()).ok_or_else(|| ("another kernel".into(), "go there".into()))
    }

    fn functions(&self, file: &MappedFile<'_>) -> Option<Vec<Function>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let of = |offset, size, name: &str| Function { offset, size, name: name.into() };
        let is_it = file.path == Path::new("/x/prog") && file.inode == Some((8, 1, 77));
        is_it.then(|| vec![of(0x480, 0x10, "a<-b;c"), of(0x400, 0x20, "main")])
    }

    fn readable(&self, name: &str) -> String {
        name.to_uppercase()
    }
}

fn opened(bytes: Vec<u8>, kernel: bool, threads: usize) -> (Box<dyn EventSource>, Arc<Known>) {
    let known = Arc::new(Known { kernel, ..Known::default() });
    let names = Some(Names(Arc::<Known>::clone(&known)));
    let options = Options { arguments: true, threads, names, ..Options::default() };
    (open_bytes_with(Path::new("x"), bytes, &options).unwrap(), known)
}

/// The texts of the stacks, in order, and the ids of the warnings.
fn told(source: &mut dyn EventSource) -> (Vec<String>, Vec<String>) {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while source.next(&mut batch).unwrap() {
        for (index, event) in batch.iter().enumerate() {
            if let What::Other { format } = event.what {
                assert_eq!(source.info().others[usize::from(format)].name, "kernel_stack");
                let text = source.arguments(index).unwrap();
                all.push(format!("{} {} {text}", event.time.0, event.by.0));
            }
        }
    }
    (all, source.warnings().iter().map(|warning| warning.code.clone()).collect())
}

const CHAIN: [u64; 9] = [
    KERNEL,
    0xffff_ffff_8100_0010,
    0xffff_ffff_8100_0210,
    USER,
    0x1010,
    0x1021,
    0x1085,
    0x9000,
    0xffff_ffff,
];

#[test]
fn a_chain_is_the_kernels_functions_then_the_programs() {
    for (big_endian, threads) in [(false, 1), (true, 1), (false, 3)] {
        let bytes = chains(big_endian, &[(9, &CHAIN), (0, &[]), (3, &CHAIN[..3])]);
        let (mut source, known) = opened(bytes, true, threads);
        let (stacks, warnings) = told(&mut *source);
        // An address beyond its function's size has the module alone, and one beyond all modules nothing.
        let first = "10 5 stack=wait<-call<-MAIN<-prog+0x421<-A< -B C<-0x9000<-0xffffffff";
        assert_eq!(stacks, [first, "30 5 stack=wait<-call"], "{big_endian} {threads}");
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(known.asked.load(Ordering::Relaxed), 2, "the kernel once, the file once");
    }
    // A call that never returns may be a function's last instruction: its return address lies behind it.
    let (mut source, _) = opened(chains(false, &[(3, &[USER, 0x1010, 0x1020])]), true, 1);
    assert_eq!(told(&mut *source).0, ["10 5 stack=MAIN<-MAIN"]);
    let (mut source, _) = opened(chains(false, &[(2, &[USER, 0x1020])]), true, 1);
    assert_eq!(told(&mut *source).0, ["10 5 stack=prog+0x420"], "it is at that place itself");
}

#[test]
fn nothing_is_decoded_that_nobody_asks_for() {
    let mut source = open_bytes(Path::new("x"), chains(false, &[(9, &CHAIN)])).unwrap();
    let others = source.info().others.clone();
    assert!(others.iter().any(|other| other.name == "kernel_stack"), "a question may ask for it");
    assert_eq!(told(&mut *source).0, Vec::<String>::new());
}

#[test]
fn without_names_stacks_are_addresses_and_a_note_says_why() {
    for threads in [1, 3] {
        let (mut source, _) = opened(chains(false, &[(9, &CHAIN[..]); 3]), false, threads);
        let (stacks, warnings) = told(&mut *source);
        assert!(stacks[0].contains("stack=0xffffffff81000010<-0xffffffff81000210<-MAIN<-"));
        assert_eq!(warnings, ["stacks-unnamed"], "once");
    }
    let options = Options { arguments: true, ..Options::default() };
    let bytes = chains(false, &[(9, &CHAIN)]);
    let mut source = open_bytes_with(Path::new("x"), bytes, &options).unwrap();
    let (stacks, warnings) = told(&mut *source);
    assert!(stacks[0].contains("<-prog+0x410<-prog+0x421<-prog+0x485<-0x9000"), "{stacks:?}");
    assert!(warnings.is_empty(), "nobody offered names");
}

#[test]
fn lengths_that_make_no_sense_are_refused_without_memory() {
    let huge = [u64::MAX, u64::MAX / 8, 1 << 40, 1 << 20, 100];
    for count in huge {
        let bytes = chains(false, &[(9, &CHAIN), (count, &CHAIN), (9, &CHAIN)]);
        let (mut source, _) = opened(bytes, true, 1);
        let (stacks, warnings) = told(&mut *source);
        assert_eq!((stacks.len(), warnings), (2, vec!["trace-damaged".to_owned()]), "{count}");
    }
    // Every cut of the file, and each byte of its records set.
    let bytes = chains(false, &[(9, &CHAIN), (3, &CHAIN[..3])]);
    for end in 0..bytes.len() {
        let options = Options { arguments: true, ..Options::default() };
        if let Ok(mut source) = open_bytes_with(Path::new("x"), bytes[..end].to_vec(), &options) {
            told(&mut *source);
        }
    }
    for at in 104..1_200.min(bytes.len()) {
        let mut bytes = bytes.clone();
        bytes[at] = 0xff;
        let options = Options { arguments: true, ..Options::default() };
        if let Ok(mut source) = open_bytes_with(Path::new("x"), bytes, &options) {
            let mut batch = Vec::new();
            while source.next(&mut batch).unwrap_or(false) {
                (0..batch.len()).for_each(|index| drop(source.arguments(index)));
            }
        }
    }
}
