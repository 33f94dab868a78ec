//! `a2s types`: types of inputs and outputs for programs in other languages.

use a2s_authoring::{TypeLanguage, TypedCapability, write_types};
use agent::RemoteRegistry;
use similar::TextDiff;

use super::dependency_loader::fetch_document;
use super::version_spec::VersionSpec;
use super::{document, lock};
use crate::cli::{TypesArgs, TypesLanguage};
use crate::cli_error::{CliError, CliExitCode, FILE};
use crate::client::ServiceClient;
use crate::output::{CommandOutput, GOOD};

pub(super) async fn types(
    arguments: TypesArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let TypesArgs { targets, lang, lock, output: file, check, package } = arguments;
    let mut documents = Vec::new();
    if let Some(lock) = lock {
        let lock = lock::read(&lock)?;
        let registry = RemoteRegistry::new(client.clone());
        for pin in std::iter::once(lock.capability()).chain(lock.dependencies()) {
            let version = pin.version.to_string();
            let found = registry.get_document(&pin.name, &version, Some(pin.checksum)).await?;
            documents.push(found.0);
        }
    }
    for target in &targets {
        documents.push(fetch_document(&VersionSpec::parse(target)?, client).await?.1);
    }
    documents.sort_by(|a, b| a.capability().name.cmp(&b.capability().name));
    let same =
        documents.windows(2).find(|two| two[0].capability().name == two[1].capability().name);
    if let Some([one, _]) = same {
        let message = format!("{} is named twice", one.capability().name);
        return Err(CliError::invalid_argument(message)
            .with_hint("Name one version of each capability: the types are called by its name."));
    }
    let typed = documents.iter().map(|document| TypedCapability {
        reference: document.to_ref(),
        description: document.capability().description.clone(),
        interface: document.interface().clone(),
    });
    let typed: Vec<_> = typed.collect();
    let language = match lang {
        TypesLanguage::TypeScript => TypeLanguage::TypeScript,
        TypesLanguage::Python => TypeLanguage::Python,
        TypesLanguage::Go => TypeLanguage::Go,
    };
    let text = write_types(language, &typed, &package);
    let Some(file) = file else {
        output.raw(&text);
        return Ok(());
    };
    if check {
        let known = document::read(&file)?;
        let known = String::from_utf8_lossy(&known);
        if known != text {
            let differs = TextDiff::from_lines(known.as_ref(), &text);
            output.note(format_args!(
                "{}",
                differs.unified_diff().header("the file", "the capabilities")
            ));
            let message = format!("{} has other types than the capabilities", file.display());
            return Err(CliError::new(CliExitCode::Bad, FILE, message)
                .with_hint("Write it again without --check, and adapt the program."));
        }
    } else {
        document::write(&file, text.as_bytes())?;
    }
    let word = if check { "unchanged" } else { "written" };
    output.note(format_args!(
        "{GOOD}{word}{GOOD:#}  {} for {}",
        file.display(),
        typed.iter().map(|one| one.reference.name.as_str()).collect::<Vec<_>>().join(", ")
    ));
    Ok(())
}
