//! The arguments of a tracepoint as names and values.

/// `a=1 b=two words` as names and values; what stands before the first name is called `text`.
///
/// A word with a `=` begins a new field, so a value that holds one is taken apart.
#[must_use]
pub fn fields(arguments: &str) -> Vec<(&str, String)> {
    let mut fields: Vec<(&str, String)> = Vec::new();
    for word in arguments.split_whitespace() {
        match (word.split_once('='), fields.last_mut()) {
            (Some((name, value)), _) if !name.is_empty() => fields.push((name, value.to_owned())),
            (_, Some((_, before))) => {
                before.push(' ');
                before.push_str(word);
            }
            (_, None) => fields.push(("text", word.to_owned())),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_reach_to_the_next_name() {
        let told = |text| {
            let fields = fields(text).into_iter();
            fields.map(|(name, value)| format!("{name}:{value}")).collect::<Vec<_>>().join("|")
        };
        assert_eq!(told("irq=42 name=a disk, or two ret="), "irq:42|name:a disk, or two|ret:");
        assert_eq!(told("hello =x a=b"), "text:hello =x|a:b");
        assert_eq!(told("  "), "");
    }
}
