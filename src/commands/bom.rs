//! `a2s bom`: everything that a capability is made of, as a bill of materials.

use std::path::Path;

use a2s_authoring::Bom;
use serde_json::json;

use super::dependency_closure::{self, DependencyClosure};
use super::version_spec::VersionSpec;
use super::{dependency_loader, document};
use crate::cli::BomArgs;
use crate::cli_error::{CliError, FILE};
use crate::client::ServiceClient;
use crate::clock;
use crate::output::{CommandOutput, GOOD, count, sanitize};

pub(super) async fn bom(
    arguments: &BomArgs,
    client: impl Fn() -> Result<ServiceClient, CliError>,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let BomArgs { target, folder, output: to, timestamp } = arguments;
    let (source, root) = match VersionSpec::find_file(target) {
        Some(path) => document::open(path, output)?,
        None => dependency_loader::fetch_document(&VersionSpec::parse(target)?, &client()?).await?,
    };
    let text = (target.as_str(), source.as_slice());
    let DependencyClosure { index, documents } =
        dependency_closure::load_closure(&root, text, folder.as_deref(), FILE, client, output)
            .await?;
    let bom = Bom::of(&root, &documents, &index, timestamp.then(clock::now));
    match to {
        Some(path) => write(path, &bom, output)?,
        None if output.is_json() => output.json_line(&bom),
        None => output.raw(&bom.to_string()),
    }
    Ok(())
}

fn write(path: &Path, bom: &Bom, output: &mut CommandOutput) -> Result<(), CliError> {
    document::write(path, bom.to_string().as_bytes())?;
    let file = path.display().to_string();
    if output.is_json() {
        output.json_line(&json!({
            "file": file,
            "serialNumber": bom.serial_number().urn().to_string(),
            "components": bom.component_count(),
            "services": bom.service_count(),
        }));
    } else {
        let (components, services) =
            (count(bom.component_count(), "component"), count(bom.service_count(), "service"));
        output.line(format_args!(
            "{GOOD}written{GOOD:#}  {}  {components}, {services}",
            sanitize(&file)
        ));
    }
    Ok(())
}
