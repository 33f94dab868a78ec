//! The arguments of the commands that write documents.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use url::Url;

pub(super) const AFTER_FMT: &str = "\
Comments stay with their fields, and the checksum stays the same: the command rejects every change of
the content. JSON stays JSON.";

pub(super) const AFTER_IMPORT: &str = "\
The command compiles every document before it writes it, and adds the checksum. It lists parts that
it cannot import, with location and reason. It replaces a file with other content only with --force.

  a2s import openapi https://api.example.com/openapi.json --list
  a2s import openapi petstore.yaml --operation getPetById --out drafts
  a2s import openapi shop.yaml --without X-Request-Id --without Accept-Language
  a2s import graphql schema.graphql --operation queries.graphql --endpoint https://api.example.com
  a2s import arazzo flows.yaml --source shop=shop.yaml";

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The name of the capability: words without spaces, each with a capital letter
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) starter: StarterArgs,
    /// The file to write, or - for standard output [default: NAME.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct StarterArgs {
    /// Begin with one request to an HTTP API (the default)
    #[arg(long)]
    pub(crate) openapi: bool,
    /// Begin with one query to a GraphQL service
    #[arg(long)]
    pub(crate) graphql: bool,
    /// Begin with two requests, one after another
    #[arg(long)]
    pub(crate) sequence: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FmtArgs {
    /// Files, folders (every .yaml, .yml and .json below), or - for standard input
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Write nothing; list what would change, and end with 1 when something would
    #[arg(long)]
    pub(crate) check: bool,
    /// Write nothing; show what would change
    #[arg(long)]
    pub(crate) diff: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    /// A document for each operation of an OpenAPI description (3.0 and 3.1)
    Openapi(ImportOpenapiArgs),
    /// A document for each operation of a GraphQL file, or for each field at the top of a schema
    Graphql(ImportGraphqlArgs),
    /// A document for each workflow of an Arazzo 1.0 document
    Arazzo(ImportArazzoArgs),
}

/// The arguments of every import.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The folder to write to
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) out: PathBuf,
    /// A prefix for every name
    #[arg(long, value_name = "NAME")]
    pub(crate) prefix: Option<String>,
    /// The author of the documents [default: git's user.name, else the contact or title of the
    /// description]
    #[arg(long, value_name = "NAME", env = "A2S_AUTHOR")]
    pub(crate) author: Option<String>,
    /// Replace files that have other content
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportOpenapiArgs {
    /// The description: a file, an address, or - for standard input
    pub(crate) spec: String,
    /// An operation by its id, as "GET /users/{id}" or by the name of its document; may be given several
    /// times [default: all]
    #[arg(long = "operation", value_name = "ID")]
    pub(crate) operations: Vec<String>,
    /// List the operations and the names of their documents, and write nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// The address of the service; replaces the one in the description
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<Url>,
    /// An optional parameter (query, header or cookie) that the documents do not get; may be given
    /// several times
    #[arg(long, value_name = "NAME")]
    pub(crate) without: Vec<String>,
    #[command(flatten)]
    pub(crate) common: ImportArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ImportGraphqlArgs {
    /// The schema, as SDL or as the response to an introspection query: a file, an address, or -
    pub(crate) schema: String,
    /// A file with operations; each becomes a document [default: one for each field at the top of
    /// the schema]
    #[arg(long, value_name = "FILE")]
    pub(crate) operation: Option<PathBuf>,
    /// The address of the service for queries
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Url,
    #[command(flatten)]
    pub(crate) common: ImportArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArazzoArgs {
    /// The document: a file, or an address
    pub(crate) file: String,
    /// The location of an OpenAPI description, in place of the one in the document
    #[arg(long = "source", value_name = "NAME=SPEC", value_parser = parse_source)]
    pub(crate) sources: Vec<(String, String)>,
    /// A host from which descriptions that the document names may be read; may be given several times
    /// [default: only files in the folder of the document or below it]
    #[arg(long = "allow-host", value_name = "HOST")]
    pub(crate) allowed_hosts: Vec<String>,
    /// The address of the services; replaces the ones in the descriptions
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<Url>,
    #[command(flatten)]
    pub(crate) common: ImportArgs,
}

fn parse_source(text: &str) -> Result<(String, String), String> {
    let (name, spec) = text.split_once('=').ok_or("write NAME=SPEC")?;
    Ok((name.to_owned(), spec.to_owned()))
}
