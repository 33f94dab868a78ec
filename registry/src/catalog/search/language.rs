//! The language of an intent for which nothing fits.

use whatlang::{Lang, Script};

/// The minimum number of letters of a text in the Latin script whose language can be detected.
const MIN_LETTERS: usize = 20;

/// Returns the name of the language or script of a text that is surely not in English.
pub(super) fn foreign_language(text: &str) -> Option<String> {
    let info = whatlang::detect(text)?;
    if info.script() != Script::Latin {
        return Some(info.script().name().to_owned());
    }
    let letters = text.chars().filter(|letter| letter.is_alphabetic()).count();
    let is_sure = info.is_reliable() && letters >= MIN_LETTERS;
    (is_sure && info.lang() != Lang::Eng).then(|| info.lang().eng_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_languages_and_scripts_are_recognized() {
        for (text, expected) in [
            ("Wie wird das Wetter morgen in der Stadt München?", Some("German")),
            ("какая завтра погода", Some("Cyrillic")),
            ("北京的天气", Some("Mandarin")),
            ("what is the weather in Paris tomorrow", None),
            ("xkcd", None),
            ("", None),
        ] {
            assert_eq!(foreign_language(text).as_deref(), expected, "{text}");
        }
    }
}
