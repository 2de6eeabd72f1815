//! The version of a kernel by the texts that name it.

/// The version in a release or in the line of `uname -a`: the first word that begins with two numbers, as
/// `6.12.0-rc3+deb` in `Linux 6.12.0-rc3+deb #1 SMP`. `None` if there is none.
#[must_use]
pub fn kernel_version(text: &str) -> Option<(u32, u32)> {
    text.split_whitespace().find_map(|word| {
        let mut numbers = word.split(|c: char| !c.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_a_release_and_behind_the_name_of_the_system() {
        assert_eq!(kernel_version("6.1.0-49-amd64"), Some((6, 1)));
        assert_eq!(kernel_version("6.12-rc3"), Some((6, 12)));
        assert_eq!(kernel_version("Linux 5.10.43+ #1 SMP PREEMPT aarch64"), Some((5, 10)));
        for text in ["", "Linux", "Linux here", "x6.1", "6"] {
            assert_eq!(kernel_version(text), None, "{text}");
        }
    }
}
