//! The arguments of `a2s connect`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub(super) const AFTER_CONNECT: &str = "\
The entry starts `a2s mcp`, which finds the owner's token in the data folder; the file contains no token.
Comments and other entries of the file stay. A file that is changed is copied to FILE.backup first.

Files, of this user:
  claude       claude_desktop_config.json in the folder of Claude Desktop
  claude-code  .mcp.json in the present folder
  cursor       .cursor/mcp.json
  vscode       mcp.json in the user's folder of VS Code
  codex        .codex/config.toml, or config.toml in CODEX_HOME
  zed          settings.json in the folder of Zed
  windsurf     .codeium/windsurf/mcp_config.json";

#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    /// The client
    pub(crate) client: McpClientKind,
    /// Print the entry, and change nothing
    #[arg(long)]
    pub(crate) print: bool,
    /// The file to change, instead of the client's own
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The name of the entry
    #[arg(long, default_value = "a2s", value_parser = parse_name)]
    pub(crate) name: String,
}

/// A client of MCP whose configuration is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpClientKind {
    /// Claude Desktop
    Claude,
    /// Claude Code
    ClaudeCode,
    Cursor,
    Vscode,
    Codex,
    Zed,
    Windsurf,
}

/// Checks the name of an entry: clients make names of tools of it.
fn parse_name(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match (1..=64).contains(&text.len()) && text.chars().all(is_name) {
        true => Ok(text.to_owned()),
        false => Err("use 1 to 64 letters, digits, - and _".to_owned()),
    }
}
