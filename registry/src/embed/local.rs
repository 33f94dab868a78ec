//! A sentence transformer in a folder, as the library `sentence-transformers` writes it: which parts
//! it has, how its positions become one vector, and its name.

mod bert;
mod tokenizer_file;

use std::fmt;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::path::{Component, Path};
use std::sync::Arc;

use a2s::Digest;
use ndarray::{Axis, Slice};
use safetensors::SafeTensors;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use self::bert::{BertEncoder, Config};
use self::tokenizer_file::read_vocabulary;
use super::model_vocabulary::{ModelVocabulary, batches};
use super::{EmbedPurpose, Embedding, Error, PromptPrefixes, RULES, short_digest, to_unit};

/// The maximum size of the file of weights, and of any other file, in bytes.
const MAX_WEIGHTS_BYTES: u64 = 2 * 1024 * 1024 * 1024;
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// The number of pieces of a text that count when the folder states no number. It is also the maximum.
const DEFAULT_PIECES: usize = 512;
/// The maximum number of positions in one batch.
const BATCH_POSITIONS: usize = 2048;
/// The number of calls that compute at the same time. Queries have permits of their own, so that they do
/// not wait for an index that is being built.
const DOCUMENT_WORKERS: usize = 1;
const QUERY_WORKERS: usize = 2;
/// The maximum number of processors for a call about documents. A call about a query uses one.
const MAX_THREADS: usize = 4;

/// A model in a folder. Copies share it.
#[derive(Clone)]
pub struct LocalModel {
    model: Arc<LoadedModel>,
    documents: Arc<Semaphore>,
    queries: Arc<Semaphore>,
    id: Arc<str>,
}

struct LoadedModel {
    bert: BertEncoder,
    pieces: ModelVocabulary,
    pooling: PoolingMode,
    prefixes: PromptPrefixes,
    /// The maximum number of positions of a text that count.
    positions: usize,
}

/// The method that combines the positions of a text into one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PoolingMode {
    /// The mean of all positions.
    Mean,
    /// The first position.
    First,
}

/// An entry of `modules.json`.
#[derive(Deserialize)]
struct ModelModule {
    #[serde(rename = "type")]
    kind: String,
    path: String,
}

/// The content of `1_Pooling/config.json`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PoolingFile {
    pooling_mode_cls_token: bool,
    pooling_mode_mean_tokens: bool,
    pooling_mode_max_tokens: bool,
    pooling_mode_mean_sqrt_len_tokens: bool,
    pooling_mode_weightedmean_tokens: bool,
    pooling_mode_lasttoken: bool,
}

/// The content of `sentence_bert_config.json`.
#[derive(Default, Deserialize)]
struct SentenceBertConfig {
    max_seq_length: Option<usize>,
}

/// The content of `config_sentence_transformers.json`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PromptConfig {
    prompts: std::collections::BTreeMap<String, String>,
}

impl LocalModel {
    /// Reads the whole model.
    pub(super) fn open(folder: &Path, prefixes: PromptPrefixes) -> Result<Self, Error> {
        let unusable = |why: String| {
            Error::Unusable(format!("the embedding model in {}: {why}", folder.display()))
        };
        Self::load(folder, prefixes).map_err(unusable)
    }

    fn load(folder: &Path, given: PromptPrefixes) -> Result<Self, String> {
        let (inner, pooling_folder) = find_modules(folder)?;
        let in_model = |name: &str| folder.join(&inner).join(name);
        let config_bytes = read(&in_model("config.json"), MAX_FILE_BYTES)?;
        let config: Config = parse("config.json", &config_bytes)?;
        config.check()?;
        let tokenizer = read(&in_model("tokenizer.json"), MAX_FILE_BYTES)?;
        let pieces = read_vocabulary(&tokenizer).map_err(|why| format!("tokenizer.json: {why}"))?;
        if pieces.size() > config.vocabulary() {
            return Err("tokenizer.json has word pieces that the model does not have".to_owned());
        }
        let pooling = match pooling_folder {
            Some(path) => read_pooling(&folder.join(path).join("config.json"))?,
            None => PoolingMode::Mean,
        };
        let sentences: SentenceBertConfig = read_optional(&in_model("sentence_bert_config.json"))?;
        let most = sentences.max_seq_length.unwrap_or(DEFAULT_PIECES).min(DEFAULT_PIECES);
        let positions = most.clamp(3, config.positions());
        let file: PromptConfig = read_optional(&folder.join("config_sentence_transformers.json"))?;
        let prompt = |names: &[&str]| {
            let found = names.iter().find_map(|name| file.prompts.get(*name));
            found.filter(|prompt| !prompt.is_empty()).cloned()
        };
        let prefixes = PromptPrefixes {
            query: given.query.or_else(|| prompt(&["query"])),
            document: given.document.or_else(|| prompt(&["document", "passage"])),
        };
        let weights = read(&in_model("model.safetensors"), MAX_WEIGHTS_BYTES)?;
        let tensors = SafeTensors::deserialize(&weights)
            .map_err(|error| format!("model.safetensors: {error}"))?;
        let bert = BertEncoder::load(&config, &tensors)
            .map_err(|why| format!("model.safetensors: {why}"))?;
        // Everything that changes a vector is in its name.
        let files = [&config_bytes, &tokenizer, &weights].map(|file| Digest::of_bytes(file));
        let prefix_text = prefixes.to_id_source();
        let id_source = format!("{files:?} {pooling:?} {positions} {prefix_text}");
        let id = format!("local-{}-{}-{RULES}", bert.width(), short_digest(&id_source));
        let model = LoadedModel { bert, pieces, pooling, prefixes, positions };
        let probe = model.embed(&["A text to try".to_owned()], EmbedPurpose::Document, 1);
        if probe.iter().any(Option::is_none) {
            return Err("the model returns vectors without a direction".to_owned());
        }
        Ok(Self {
            model: Arc::new(model),
            documents: Arc::new(Semaphore::new(DOCUMENT_WORKERS)),
            queries: Arc::new(Semaphore::new(QUERY_WORKERS)),
            id: id.into(),
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn dimensions(&self) -> usize {
        self.model.bert.width()
    }

    pub(super) async fn embed(
        &self,
        texts: Vec<String>,
        purpose: EmbedPurpose,
    ) -> Result<Vec<Embedding>, Error> {
        let ended = || Error::Unavailable("the embedding model stopped unexpectedly".to_owned());
        let workers = match purpose {
            EmbedPurpose::Document => &self.documents,
            EmbedPurpose::Query => &self.queries,
        };
        let worker = Arc::clone(workers).acquire_owned().await.map_err(|_| ended())?;
        let model = Arc::clone(&self.model);
        tokio::task::spawn_blocking(move || {
            let _worker = worker;
            let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
            let threads = match purpose {
                EmbedPurpose::Document => processors.min(MAX_THREADS),
                EmbedPurpose::Query => 1,
            };
            model.embed(&texts, purpose, threads)
        })
        .await
        .map_err(|_| ended())
    }
}

impl LoadedModel {
    /// Returns the vectors of texts, in their order, computed by `threads` threads.
    fn embed(&self, texts: &[String], purpose: EmbedPurpose, threads: usize) -> Vec<Embedding> {
        let cut: Vec<_> = texts.iter().map(|text| self.tokenize(text, purpose)).collect();
        let part = cut.len().div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let mut parts = cut.chunks(part);
            let first = parts.next().unwrap_or_default();
            let others: Vec<_> =
                parts.map(|part| scope.spawn(move || self.embed_tokenized(part))).collect();
            let mut vectors = self.embed_tokenized(first);
            for other in others {
                vectors.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            vectors
        })
    }

    fn embed_tokenized(&self, texts: &[Vec<u32>]) -> Vec<Embedding> {
        batches(texts, BATCH_POSITIONS).flat_map(|batch| self.embed_batch(batch)).collect()
    }

    /// Returns the pieces of a text between the two marker pieces; empty when the text is blank.
    fn tokenize(&self, text: &str, purpose: EmbedPurpose) -> Vec<u32> {
        if text.trim().is_empty() {
            return Vec::new();
        }
        let text = format!("{}{text}", self.prefixes.prefix_for(purpose));
        self.pieces.tokenize(&text, self.positions)
    }

    fn embed_batch(&self, texts: &[Vec<u32>]) -> Vec<Embedding> {
        let (rows, ranges) = self.bert.forward(texts);
        let to_vector = |range: std::ops::Range<usize>| {
            let rows = rows.slice_axis(Axis(0), Slice::from(range));
            let pooled = match self.pooling {
                PoolingMode::Mean => rows.mean_axis(Axis(0))?,
                PoolingMode::First => rows.outer_iter().next()?.to_owned(),
            };
            to_unit(pooled.to_vec())
        };
        ranges.into_iter().map(to_vector).collect()
    }
}

impl fmt::Debug for LocalModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The folders of the model and of its pooling. A folder without `modules.json` contains only a model.
fn find_modules(folder: &Path) -> Result<(String, Option<String>), String> {
    let path = folder.join("modules.json");
    if !path.exists() {
        return Ok((String::new(), None));
    }
    let modules: Vec<ModelModule> = parse("modules.json", &read(&path, MAX_FILE_BYTES)?)?;
    let (mut model, mut pooling) = (None, None);
    for module in modules {
        let is_below = Path::new(&module.path)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !is_below {
            return Err(format!("modules.json names a path outside the folder: `{}`", module.path));
        }
        match module.kind.rsplit('.').next().unwrap_or_default() {
            "Transformer" => model = Some(module.path),
            "Pooling" => pooling = Some(module.path),
            // Vectors are made to have length one in any case.
            "Normalize" => {}
            other => return Err(format!("modules.json: the module `{other}` is not supported")),
        }
    }
    Ok((model.ok_or("modules.json names no Transformer")?, pooling))
}

fn read_pooling(path: &Path) -> Result<PoolingMode, String> {
    let file: PoolingFile = parse("pooling", &read(path, MAX_FILE_BYTES)?)?;
    let others = file.pooling_mode_max_tokens
        || file.pooling_mode_mean_sqrt_len_tokens
        || file.pooling_mode_weightedmean_tokens
        || file.pooling_mode_lasttoken;
    match (file.pooling_mode_mean_tokens, file.pooling_mode_cls_token) {
        (true, false) if !others => Ok(PoolingMode::Mean),
        (false, true) if !others => Ok(PoolingMode::First),
        _ => Err("its pooling is not supported; use the mean or the first token".to_owned()),
    }
}

fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let fail = |error: std::io::Error| format!("{}: {error}", path.display());
    let length = std::fs::metadata(path).map_err(fail)?.len();
    if length > most {
        return Err(format!("{} is larger than {most} bytes", path.display()));
    }
    std::fs::read(path).map_err(fail)
}

fn read_optional<T: DeserializeOwned + Default>(path: &Path) -> Result<T, String> {
    match path.exists() {
        true => parse(&path.display().to_string(), &read(path, MAX_FILE_BYTES)?),
        false => Ok(T::default()),
    }
}

fn parse<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("{name}: {error}"))
}

#[cfg(test)]
mod tests;
