use super::*;

fn remark(message: &str, line: usize, column: usize) -> Diagnostic {
    Diagnostic {
        code: "A2S040".to_owned(),
        severity: DiagnosticSeverity::Error,
        message: message.to_owned(),
        path: "a.b".to_owned(),
        position: SourcePosition { line, column },
        hint: None,
        related: Vec::new(),
    }
}

/// The characters that are underlined.
#[track_caller]
fn check(text: &str, message: &str, (line, column): (usize, usize), expected: &str) {
    let excerpts = SourceExcerpts::new("x.yaml", text);
    let place = excerpts.find_span(&remark(message, line, column)).unwrap();
    let letters: Vec<char> = excerpts.lines[place.line].chars().collect();
    let marked: String = letters[place.columns].iter().collect();
    assert_eq!(marked, expected, "{text:?}");
}

#[test]
fn the_word_at_the_place_is_underlined() {
    check("descripton: Gets it", "", (1, 1), "descripton");
    check("a: b  # why", "", (1, 4), "b");
    check("a: b c d", "", (1, 4), "b c d");
    check("a: {b: 1, c: [2, 3]} # x", "", (1, 4), "{b: 1, c: [2, 3]}");
    check("a: {b: one, c: two}", "", (1, 8), "one");
    check("a: {b: one, c: two}", "", (1, 16), "two");
    check("a: [x, https://y.z]", "", (1, 8), "https://y.z");
    check("a: \"b \\\" c\" # d", "", (1, 4), "\"b \\\" c\"");
    check("a: 'not closed", "", (1, 4), "'not closed");
    check("ä: ß ö", "", (1, 4), "ß ö");
    check("a: |\r\n  b\r\n", "", (2, 3), "b");
    check("\u{feff}a: b", "", (1, 4), "b");
}

#[test]
fn a_template_inside_a_string_is_underlined_itself() {
    let unknown = "nothing sets `${town}`";
    check("a: \"in ${city} or ${town}!\"", unknown, (1, 4), "${town}");
    check("a: \"in ${ town }\"", unknown, (1, 4), "${ town }");
    check("a: |\n  in ${city}\n  or ${town}\nb: 1", unknown, (1, 4), "${town}");
    // What stands before the place, or behind the block, is another one.
    check("a: {x: \"${town}\", y: \"z\"}", unknown, (1, 22), "\"z\"");
    check("a: b\nc: ${town}", unknown, (1, 4), "b");
    check("a: \"x ${city\", b: \"${c}\"", "`${` without `}`", (1, 4), "${city");
    check("a: |\n  ${x}\n  ${y\n", "`${` without `}`", (1, 4), "${y");
}

#[test]
fn a_very_long_line_is_cut_around_the_place() {
    let text =
        format!("a: {{{} b: wrong, {}}}", "x: 1, ".repeat(100_000), "y: 2, ".repeat(100_000));
    let column = text.find("wrong").unwrap() + 1;
    let rendered = SourceExcerpts::new("x.yaml", &text).render(&remark("no", 1, column), false);
    assert!(rendered.len() < 1_000, "{} bytes", rendered.len());
    assert!(rendered.contains("wrong") && rendered.contains(&format!("x.yaml:1:{column}")));
    let lines: Vec<&str> = rendered.lines().collect();
    let at = |line: &str, what: &str| line.split(what).next().unwrap().chars().count();
    let source = lines.iter().find(|line| line.contains("wrong")).unwrap();
    let marks = lines.iter().find(|line| line.contains("^^^^^")).unwrap();
    assert_eq!(at(source, "wrong"), at(marks, "^"), "{rendered}");
}

#[test]
fn foreign_text_does_nothing_to_the_terminal() {
    let text = "a: \"x\u{1b}[2Jy\u{9b}31m\u{202e}\"";
    let mut diagnostic = remark("no `\u{1b}[31m`\u{7}", 1, 4);
    diagnostic.hint = Some("try \u{1b}]0;x\u{7}".to_owned());
    diagnostic.path = "a\u{1b}[1m".to_owned();
    let rendered = SourceExcerpts::new("\u{1b}[3m.yaml", text).render(&diagnostic, false);
    assert!(!rendered.chars().any(|c| c.is_control() && c != '\n'), "{rendered:?}");
    assert!(!rendered.contains('\u{202e}'));
}

#[test]
fn no_remark_breaks_the_excerpt() {
    let texts = [
        "",
        "\n",
        "a",
        "a: \u{1b}\n\n\n b: ${",
        "\t\té\tb",
        "日本: \"語 ${x}\"",
        "a: '",
        "{[",
        "\r",
    ];
    for text in texts {
        for line in 0..5 {
            for column in 0..12 {
                let mut diagnostic = remark("`${x}` and `${`", line, column);
                let position = SourcePosition { line: 4 - line, column };
                let message = "first".to_owned();
                diagnostic.related = vec![a2s::RelatedPosition { message, position }];
                SourceExcerpts::new("f", text).render(&diagnostic, line == 2);
            }
        }
    }
}
