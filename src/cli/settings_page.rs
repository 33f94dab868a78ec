//! The page of all settings, generated from the command line and the reader of the file.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Arg, CommandFactory as _};

use super::CliArguments;
use crate::settings::SettingsFile;

/// The services with their names on the page, and the commands that start them.
const SERVICES: [(&str, &[&str]); 5] = [
    ("up", &["up"]),
    ("registry", &["serve", "registry"]),
    ("executor", &["serve", "executor"]),
    ("guardian", &["serve", "guardian"]),
    ("agent", &["serve", "agent"]),
];
/// A key that no section has.
const UNKNOWN: &str = "no-such-key";
/// The nesting depth up to which sections of the file are listed.
const MAX_DEPTH: usize = 3;

const HEAD: &str = "\
# Settings of the services

Every flag, variable and key, generated from the program. A flag takes precedence over its variable, the variable over
the file of `--config` (TOML), and the file over the default. Limits are in [limits.md](limits.md).

";

/// Returns the page `docs/configuration.md`.
#[must_use]
pub fn configuration_markdown() -> String {
    let mut page = HEAD.to_owned();
    page.push_str(
        "## Flags and variables\n\n| flag | variable | of | meaning |\n|---|---|---|---|\n",
    );
    for (flag, (argument, services)) in flags() {
        let values = argument.get_value_names().filter(|_| argument.get_action().takes_values());
        let value = values
            .and_then(|names| names.first())
            .map_or_else(String::new, |name| format!(" {name}"));
        let variable = argument
            .get_env()
            .map_or_else(String::new, |name| format!("`{}`", name.to_string_lossy()));
        let help = argument.get_long_help().or_else(|| argument.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default().replace('\n', " ");
        let defaults: Vec<_> =
            argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let default = match defaults.is_empty() || !argument.get_action().takes_values() {
            true => String::new(),
            false => format!(" [default: {}]", defaults.join(", ")),
        };
        let services = services.join(", ");
        let cells = [format!("`--{flag}{value}`"), variable, services, format!("{help}{default}")];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        writeln!(page, "| {} |", cells.join(" | ")).ok();
    }
    page.push_str("\n## Keys of the file\n\n");
    page.push_str(
        "`NAME` is a name of your choice. Each key has the meaning of the flag with the same name.\n\n",
    );
    page.push_str("| section | keys |\n|---|---|\n");
    for (section, keys) in sections() {
        let section = if section.is_empty() { "(top)".to_owned() } else { format!("`{section}`") };
        let keys: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
        writeln!(page, "| {section} | {} |", keys.join(", ")).ok();
    }
    page
}

/// Returns the flags of all services, each with the services that have it.
fn flags() -> BTreeMap<String, (Arg, Vec<&'static str>)> {
    let mut flags: BTreeMap<String, (Arg, Vec<&'static str>)> = BTreeMap::new();
    let mut command = CliArguments::command();
    command.build();
    for (service, path) in SERVICES {
        let found = path.iter().try_fold(&command, |command, name| command.find_subcommand(name));
        let Some(found) = found else { continue };
        for argument in found.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let Some(flag) = argument.get_long() else { continue };
            if flag == "help" {
                continue;
            }
            let (_, services) =
                flags.entry(flag.to_owned()).or_insert_with(|| (argument.clone(), Vec::new()));
            services.push(service);
        }
    }
    flags
}

/// Returns the sections of the file, each with its keys.
fn sections() -> Vec<(String, Vec<String>)> {
    let mut sections = Vec::new();
    let mut waiting = vec![(String::new(), 0)];
    while let Some((section, depth)) = waiting.pop() {
        let Some((header, keys)) = keys_of(&section) else { continue };
        if depth < MAX_DEPTH {
            let below = keys.iter().rev().map(|key| match section.as_str() {
                "" => key.clone(),
                section => format!("{section}.{key}"),
            });
            // A table of names that are the user's own has sections below each of them.
            let below = below.flat_map(|path| [format!("{path}.NAME"), path]);
            waiting.extend(below.map(|path| (path, depth + 1)));
        }
        sections.push((header, keys));
    }
    sections
}

/// Returns the header of a section and its keys, as the reader of the file lists them for an unknown key;
/// none for a name that is not a section.
fn keys_of(section: &str) -> Option<(String, Vec<String>)> {
    let headers = match section {
        "" => vec![String::new()],
        section => {
            let named = section.replace("NAME", "name.example");
            let quoted = named.replace("name.example", "\"name.example\"");
            vec![format!("[{quoted}]"), format!("[[{quoted}]]")]
        }
    };
    headers.into_iter().find_map(|header| {
        let error = SettingsFile::parse(&format!("{header}\n{UNKNOWN} = 1")).err()?;
        let (found, expected) = error.split_once(", expected ")?;
        if !found.contains(&format!("unknown field `{UNKNOWN}`")) {
            return None;
        }
        let keys = expected.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        Some((header.replace("\"name.example\"", "NAME"), keys))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_tells_its_sections_and_their_keys() {
        let sections: BTreeMap<_, _> = sections().into_iter().collect();
        let has = |section: &str, key: &str| {
            sections.get(section).is_some_and(|keys| keys.iter().any(|known| known == key))
        };
        assert!(has("", "listen") && has("", "client-certificates"), "{sections:?}");
        assert!(has("[agent]", "mcp-tools"), "{sections:?}");
        assert!(has("[[agent.peers]]", "url"), "{sections:?}");
        assert!(has("[telemetry]", "ocsf-file"), "{sections:?}");
        assert!(has("[tenants.NAME]", "max-queued"), "{sections:?}");
    }
}
