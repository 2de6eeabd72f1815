//! Format texts: where each field of a tracepoint's record lies.
//!
//! The kernel prints one for each event (`events/SYSTEM/NAME/format`), and traces carry them, because
//! ids, offsets and sizes differ between kernels. Nothing here is a constant of one kernel.

/// Where a field's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the record itself.
    Inline,
    /// Elsewhere in the record: the field is `length << 16 | offset` from the record's start.
    DataLoc,
    /// As [`Self::DataLoc`], but the offset counts from behind the field.
    RelLoc,
}

/// Where one value lies in the body of an event, and how it is written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// As in the tracepoint's declaration, without its type.
    pub name: String,
    /// The C type of the field as the kernel prints it, with array brackets.
    pub(crate) kind: String,
    /// Bytes from the start of the record.
    pub(crate) offset: u32,
    /// The size of the field in the record, in bytes.
    pub(crate) size: u32,
    /// Whether it is a signed number.
    pub(crate) signed: bool,
    /// Where its content is.
    pub(crate) place: Place,
}

/// The format of one tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The system of the tracepoint (`sched`).
    pub(crate) system: String,
    /// The name of the tracepoint (`sched_switch`).
    pub(crate) name: String,
    /// The number by which records name it.
    pub(crate) id: u16,
    /// All fields, the common ones first.
    pub fields: Vec<Field>,
    /// What follows `print fmt:`.
    pub(crate) print: String,
}

impl Format {
    /// Reads a format text; `None` when it lacks a name or an id that fits a record. Lines that make
    /// no sense are passed over.
    #[must_use]
    pub fn parse(system: &str, text: &str) -> Option<Self> {
        let (name, id) = identify(text)?;
        let mut fields = Vec::new();
        let mut print = "";
        for line in text.lines() {
            let line = line.trim_start();
            if let Some(rest) = line.strip_prefix("field:") {
                fields.extend(field(rest));
            } else if let Some(rest) = line.strip_prefix("print fmt:") {
                print = rest.trim();
            }
        }
        Some(Self {
            system: system.to_owned(),
            name: name.to_owned(),
            id,
            fields,
            print: print.to_owned(),
        })
    }

    /// The field called `name`; `None` if the tracepoint does not have one.
    #[must_use]
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// Name and id only: all that most of a file's hundreds of formats are asked for.
pub(crate) fn identify(text: &str) -> Option<(&str, u16)> {
    let mut name = None;
    let mut id = None;
    for line in text.lines().take(8) {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("name:") {
            name = Some(rest.trim());
        } else if let Some(rest) = line.strip_prefix("ID:") {
            id = rest.trim().parse().ok();
        }
        if name.is_some() && id.is_some() {
            break;
        }
    }
    Some((name?, id?))
}

/// One `field:` line: a declaration, then `offset:`, `size:`, `signed:`, each ended by `;`.
fn field(line: &str) -> Option<Field> {
    let mut parts = line.split(';');
    let declaration = parts.next()?.trim();
    let mut number =
        |key: &str| -> Option<u32> { parts.next()?.trim().strip_prefix(key)?.trim().parse().ok() };
    let offset = number("offset:")?;
    let size = number("size:")?;
    // The oldest kernels print no sign.
    let signed = number("signed:").unwrap_or(0) != 0;
    let (place, declaration) = match declaration {
        d if d.starts_with("__data_loc ") => (Place::DataLoc, d.trim_start_matches("__data_loc ")),
        d if d.starts_with("__rel_loc ") => (Place::RelLoc, d.trim_start_matches("__rel_loc ")),
        d => (Place::Inline, d),
    };
    // `char comm[16]` is an array by its name, `char[] comm` by its type.
    let (declaration, array) = match declaration.strip_suffix(']').and_then(|d| d.rsplit_once('['))
    {
        Some((declaration, length)) => (declaration, format!("[{length}]")),
        None => (declaration, String::new()),
    };
    let (kind, name) = match declaration.rsplit_once(char::is_whitespace) {
        // `const char *name`
        Some((kind, name)) if name.starts_with('*') => (format!("{kind} *"), &name[1..]),
        Some((kind, name)) => (kind.to_owned(), name),
        None => return None,
    };
    let kind = format!("{}{array}", kind.trim());
    Some(Field { name: name.to_owned(), kind, offset, size, signed, place })
}

/// Sizes from the `header_page` text: bytes of the `commit` field (the kernel's `long`), and of data.
pub(crate) fn header_page(text: &str) -> Option<(u8, u32)> {
    let fields: Vec<Field> =
        text.lines().filter_map(|l| field(l.trim_start().strip_prefix("field:")?)).collect();
    let size = |name: &str| fields.iter().find(|f| f.name == name).map(|f| f.size);
    let long = match size("commit")? {
        4 => 4,
        8 => 8,
        _ => return None,
    };
    Some((long, size("data")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIGRATE: &str = "name: sched_migrate_task\nID: 371\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:__data_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:const char * name;\toffset:12;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned long args[6];\toffset:20;\tsize:48;\tsigned:0;\n\
        \tfield:nonsense\n\n\
        print fmt: \"comm=%s\", __get_str(comm)\n";

    #[test]
    fn fields_are_found_where_the_text_says() {
        let format = Format::parse("sched", MIGRATE).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("sched_migrate_task", 371));
        assert_eq!(format.print, "\"comm=%s\", __get_str(comm)");
        let comm = format.field("comm").unwrap();
        assert_eq!((comm.offset, comm.place, comm.kind.as_str()), (8, Place::DataLoc, "char[]"));
        let pid = format.field("common_pid").unwrap();
        assert!(pid.signed && pid.offset == 4 && pid.kind == "int");
        assert_eq!(format.field("args").unwrap().kind, "unsigned long[6]");
        assert_eq!(format.field("name").unwrap().kind, "const char *");
        assert_eq!(format.fields.len(), 5);
    }

    #[test]
    fn a_text_without_a_usable_id_is_no_format() {
        assert_eq!(Format::parse("s", "name: x\nID: 70000\n"), None);
        assert_eq!(Format::parse("s", "ID: 7\n"), None);
        assert_eq!(Format::parse("s", ""), None);
    }

    #[test]
    fn page_sizes_come_from_the_header_text() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
            \tfield: char data;\toffset:12;\tsize:4084;\tsigned:0;\n";
        assert_eq!(header_page(text), Some((4, 4084)));
        assert_eq!(header_page("nothing"), None);
    }

    #[test]
    fn a_declaration_has_a_type_a_name_and_a_place() {
        let of = |line: &str| field(line).map(|field| (field.kind, field.name, field.place));
        let found = |kind: &str, name: &str, place| Some((kind.to_owned(), name.to_owned(), place));
        let end = ";\toffset:8;\tsize:4;\tsigned:0;";
        let of = |declaration: &str| of(&format!("{declaration}{end}"));
        assert_eq!(of("const char *name"), found("const char *", "name", Place::Inline));
        assert_eq!(of("__rel_loc int[] cpus"), found("int[]", "cpus", Place::RelLoc));
        assert_eq!(of("char comm[16]"), found("char[16]", "comm", Place::Inline));
        assert_eq!(of("nameless"), None);
    }

    #[test]
    fn the_sign_may_be_missing_and_no_other_part() {
        let line = "int a;\toffset:8;\tsize:4;";
        assert!(!field(line).unwrap().signed);
        assert!(field(&format!("{line}\tsigned:1;")).unwrap().signed);
        assert_eq!(field("int a;\toffset:8;"), None);
        assert_eq!(field("int a;\tsize:4;\toffset:8;"), None);
    }

    #[test]
    fn name_and_id_stand_in_the_first_lines_in_any_order() {
        assert_eq!(identify("ID: 7\nname: x\n"), Some(("x", 7)));
        assert_eq!(identify("name: x\nID: 7\nname: y\n"), Some(("x", 7)), "the first counts");
        let late = |lines: usize| format!("name: x\n{}ID: 7\n", "\n".repeat(lines));
        assert_eq!((identify(&late(6)), identify(&late(7))), (Some(("x", 7)), None));
        let odd = "\tfield: local_t commit;\toffset:8;\tsize:2;\tsigned:1;\n\
            \tfield: char data;\toffset:12;\tsize:4084;\tsigned:0;\n";
        assert_eq!(header_page(odd), None, "no kernel has a long of two bytes");
    }
}
