//! `a2s connect`: writes the MCP configuration of a client.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use directories::BaseDirs;
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde_json::json;
use toml_edit::{Array, DocumentMut, Item, Table, value};

use super::document;
use crate::cli::{ConnectArgs, GlobalArgs, McpClientKind};
use crate::cli_error::{CliError, CliExitCode, FILE};
use crate::output::{CommandOutput, DIM, GOOD};

/// The largest configuration file that is changed, in bytes.
const MAX_FILE: u64 = 4 << 20;

/// The program that a client starts.
struct McpServerEntry {
    command: String,
    arguments: Vec<String>,
}

/// The place of the entries in a configuration file.
struct ConfigFormat {
    /// The member that has one member for each server.
    section: &'static str,
    is_toml: bool,
    /// Set when an entry names its kind of transport.
    has_type: bool,
}

impl McpClientKind {
    const fn format(self) -> ConfigFormat {
        let (section, is_toml, has_type) = match self {
            Self::Claude | Self::ClaudeCode | Self::Cursor | Self::Windsurf => {
                ("mcpServers", false, false)
            }
            Self::Vscode => ("servers", false, true),
            Self::Codex => ("mcp_servers", true, false),
            Self::Zed => ("context_servers", false, false),
        };
        ConfigFormat { section, is_toml, has_type }
    }

    /// The configuration file of this user. None when the home folder is not known.
    fn file(self) -> Option<PathBuf> {
        if self == Self::ClaudeCode {
            return Some(PathBuf::from(".mcp.json"));
        }
        let folders = BaseDirs::new()?;
        let (home, config) = (folders.home_dir(), folders.config_dir());
        Some(match self {
            Self::Claude => config.join("Claude/claude_desktop_config.json"),
            Self::ClaudeCode | Self::Cursor => home.join(".cursor/mcp.json"),
            Self::Vscode => config.join("Code/User/mcp.json"),
            Self::Codex => match env::var_os("CODEX_HOME") {
                Some(folder) => PathBuf::from(folder).join("config.toml"),
                None => home.join(".codex/config.toml"),
            },
            // Zed keeps its settings there on macOS, too.
            Self::Zed if cfg!(target_os = "macos") => home.join(".config/zed/settings.json"),
            Self::Zed if cfg!(windows) => config.join("Zed/settings.json"),
            Self::Zed => config.join("zed/settings.json"),
            Self::Windsurf => home.join(".codeium/windsurf/mcp_config.json"),
        })
    }
}

impl McpServerEntry {
    /// The entry that starts this program with the service of these arguments.
    fn from_globals(globals: &GlobalArgs) -> Result<Self, CliError> {
        let program =
            env::current_exe().map_err(|error| CliError::file_error(Path::new("a2s"), &error))?;
        let mut arguments = vec!["mcp".to_owned()];
        if globals.url.as_str() != "http://127.0.0.1:8740/" {
            arguments.extend(["--url".to_owned(), globals.url.to_string()]);
        }
        if let Some(folder) = &globals.data_dir {
            // The client starts the program in another folder.
            let folder = std::path::absolute(folder)
                .map_err(|error| CliError::file_error(folder, &error))?;
            arguments.extend(["--data-dir".to_owned(), folder.display().to_string()]);
        }
        Ok(Self { command: program.display().to_string(), arguments })
    }

    fn to_json(&self, format: &ConfigFormat) -> CstInputValue {
        let text = |text: &String| CstInputValue::String(text.clone());
        let arguments = CstInputValue::Array(self.arguments.iter().map(text).collect());
        let mut members =
            vec![("command".to_owned(), text(&self.command)), ("args".to_owned(), arguments)];
        if format.has_type {
            members.insert(0, ("type".to_owned(), CstInputValue::String("stdio".to_owned())));
        }
        CstInputValue::Object(members)
    }

    fn to_toml(&self) -> Table {
        let mut table = Table::new();
        table["command"] = value(self.command.clone());
        table["args"] = value(self.arguments.iter().collect::<Array>());
        table
    }
}

pub(super) fn connect(
    arguments: ConnectArgs,
    globals: &GlobalArgs,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let ConnectArgs { client, print, file, name } = arguments;
    let format = client.format();
    let entry = McpServerEntry::from_globals(globals)?;
    let Some(file) = file.or_else(|| client.file()) else {
        let message = "the home folder of this user is not known";
        return Err(CliError::new(CliExitCode::Bad, FILE, message)
            .with_hint("Name the configuration file of the client with --file."));
    };
    if print {
        let text = with_entry("", &format, &name, &entry).map_err(|why| refused(&file, &why))?;
        output.raw(&text);
        output.note(format_args!("{DIM}for {}{DIM:#}", file.display()));
        return Ok(());
    }
    // The file behind a link is the one that is changed.
    let file = fs::canonicalize(&file).unwrap_or(file);
    let before = read(&file)?;
    let was = before.as_deref().unwrap_or_default();
    let text = with_entry(was, &format, &name, &entry).map_err(|why| refused(&file, &why))?;
    let changed = text != was;
    let backup = file.with_added_extension("backup");
    if changed {
        if before.is_some() {
            fs::copy(&file, &backup).map_err(|error| CliError::file_error(&backup, &error))?;
        } else if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(|error| CliError::file_error(folder, &error))?;
        }
        document::write(&file, text.as_bytes())?;
    }
    let backup = (changed && before.is_some()).then_some(backup);
    if output.is_json() {
        output
            .json_line(&json!({"file": file, "name": name, "changed": changed, "backup": backup}));
        return Ok(());
    }
    let word = if changed { "connected" } else { "unchanged" };
    output.line(format_args!("{GOOD}{word}{GOOD:#}  {}", file.display()));
    if let Some(backup) = backup {
        output.line(format_args!("  {DIM}the file before: {}{DIM:#}", backup.display()));
    }
    output.line(format_args!("  {DIM}start `a2s up`, then start the client again{DIM:#}"));
    Ok(())
}

/// Reads a configuration file. None when there is none.
fn read(file: &Path) -> Result<Option<String>, CliError> {
    let known = match fs::metadata(file) {
        Ok(known) => known,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CliError::file_error(file, &error)),
    };
    if !known.is_file() || known.len() > MAX_FILE {
        return Err(refused(file, "it is no file, or is larger than 4 MiB"));
    }
    let text =
        fs::read_to_string(file).map_err(|error: io::Error| CliError::file_error(file, &error));
    text.map(Some)
}

fn refused(file: &Path, why: &str) -> CliError {
    let message = format!("{} stays as it is: {why}", file.display());
    CliError::new(CliExitCode::Bad, FILE, message)
        .with_hint("Correct the file, or add the entry yourself: --print shows it.")
}

/// Returns the text of a configuration file with the entry. Everything else in it stays.
///
/// # Errors
/// Says why the text is no such configuration.
fn with_entry(
    text: &str,
    format: &ConfigFormat,
    name: &str,
    entry: &McpServerEntry,
) -> Result<String, String> {
    let no_section = |kind: &str| format!("`{}` is no {kind}", format.section);
    if format.is_toml {
        let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
            format!("it cannot be read as TOML: {}", error.message())
        })?;
        let section = document.entry(format.section).or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
        let section = section.as_table_like_mut().ok_or_else(|| no_section("table"))?;
        section.insert(name, Item::Table(entry.to_toml()));
        return Ok(document.to_string());
    }
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let root = CstRootNode::parse(text, &ParseOptions::default())
        .map_err(|error| format!("it cannot be read as JSON: {error}"))?;
    let members = root.object_value().ok_or("it is no object")?;
    let section = match members.get(format.section) {
        None => members.object_value_or_set(format.section),
        Some(section) => section.object_value().ok_or_else(|| no_section("object"))?,
    };
    match section.get(name) {
        Some(known) => known.set_value(entry.to_json(format)),
        None => {
            section.append(name, entry.to_json(format));
        }
    }
    Ok(root.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> McpServerEntry {
        let arguments = ["mcp", "--url", "http://127.0.0.1:9/"].map(str::to_owned).to_vec();
        McpServerEntry { command: "/opt/a \"b\"/a2s".to_owned(), arguments }
    }

    fn add(client: McpClientKind, text: &str) -> Result<String, String> {
        with_entry(text, &client.format(), "a2s", &entry())
    }

    #[test]
    fn an_entry_is_added_to_an_empty_file() {
        insta::assert_snapshot!(add(McpClientKind::Cursor, "").unwrap(), @r#"
        {
          "mcpServers": {
            "a2s": {
              "command": "/opt/a \"b\"/a2s",
              "args": ["mcp", "--url", "http://127.0.0.1:9/"]
            }
          }
        }
        "#);
        insta::assert_snapshot!(add(McpClientKind::Codex, "").unwrap(), @r#"
        [mcp_servers.a2s]
        command = '/opt/a "b"/a2s'
        args = ["mcp", "--url", "http://127.0.0.1:9/"]
        "#);
    }

    #[test]
    fn comments_and_other_entries_stay() {
        let settings = "// mine\n{\n  \"theme\": \"dark\", // good\n  \"context_servers\": {\n    \"other\": {\"command\": \"x\"},\n  },\n}\n";
        insta::assert_snapshot!(add(McpClientKind::Zed, settings).unwrap(), @r#"
        // mine
        {
          "theme": "dark", // good
          "context_servers": {
            "other": {"command": "x"},
            "a2s": {
              "command": "/opt/a \"b\"/a2s",
              "args": ["mcp", "--url", "http://127.0.0.1:9/"],
            },
          },
        }
        "#);
        let config = "# mine\nmodel = \"o\"\n\n[mcp_servers.other]\ncommand = \"x\" # good\n";
        insta::assert_snapshot!(add(McpClientKind::Codex, config).unwrap(), @r#"
        # mine
        model = "o"

        [mcp_servers.other]
        command = "x" # good

        [mcp_servers.a2s]
        command = '/opt/a "b"/a2s'
        args = ["mcp", "--url", "http://127.0.0.1:9/"]
        "#);
    }

    #[test]
    fn the_same_entry_again_changes_nothing() {
        for client in [McpClientKind::Vscode, McpClientKind::Codex, McpClientKind::Zed] {
            let once = add(client, "").unwrap();
            assert_eq!(add(client, &once).unwrap(), once, "{client:?}");
        }
    }

    #[test]
    fn what_is_no_configuration_stays() {
        for (client, text) in [
            (McpClientKind::Cursor, "[]"),
            (McpClientKind::Cursor, "{\"mcpServers\": 1}"),
            (McpClientKind::Cursor, "{"),
            (McpClientKind::Codex, "mcp_servers = 1"),
            (McpClientKind::Codex, "[a"),
        ] {
            assert!(add(client, text).is_err(), "{text}");
        }
    }
}
