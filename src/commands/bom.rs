//! `a2s bom`: everything that a capability is made of, as a bill of materials.

use std::path::Path;

use a2s::Bom;
use serde_json::json;

use super::dependency_closure::{self, Closure};
use super::version_spec::Target;
use super::{dependency_loader, document};
use crate::cli::BomArgs;
use crate::cli_error::{FILE, Failure};
use crate::client::Client;
use crate::clock;
use crate::output::{GOOD, Output, count, plain};

pub(super) async fn bom(
    arguments: &BomArgs,
    client: impl Fn() -> Result<Client, Failure>,
    output: &mut Output,
) -> Result<(), Failure> {
    let BomArgs { target, folder, output: to, timestamp } = arguments;
    let (source, root) = match Target::of_file(target) {
        Some(path) => document::open(path, output)?,
        None => dependency_loader::fetch(&Target::parse(target)?, &client()?).await?,
    };
    let text = (target.as_str(), source.as_slice());
    let Closure { shelf, below } =
        dependency_closure::gather(&root, text, folder.as_deref(), FILE, client, output).await?;
    let bom = Bom::of(&root, &below, &shelf, timestamp.then(clock::now));
    match to {
        Some(path) => write(path, &bom, output)?,
        None if output.is_json() => output.json_line(&bom),
        None => output.raw(&bom.to_string()),
    }
    Ok(())
}

fn write(path: &Path, bom: &Bom, output: &mut Output) -> Result<(), Failure> {
    document::write(path, bom.to_string().as_bytes())?;
    let file = path.display().to_string();
    if output.is_json() {
        output.json_line(&json!({
            "file": file,
            "serialNumber": bom.serial_number().urn().to_string(),
            "components": bom.components(),
            "services": bom.services(),
        }));
    } else {
        let (components, services) =
            (count(bom.components(), "component"), count(bom.services(), "service"));
        output.line(format_args!(
            "{GOOD}written{GOOD:#}  {}  {components}, {services}",
            plain(&file)
        ));
    }
    Ok(())
}
