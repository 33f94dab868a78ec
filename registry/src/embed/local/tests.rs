//! The local embedder against the reference (`tools/embedding/local_fixture.py`), and against
//! folders that are broken or foreign.

use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use half::f16;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::EmbedDeadline;
use super::*;

#[derive(Deserialize)]
struct Expected {
    text: String,
    mean: String,
    first: String,
}

fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(path)
}

fn expected(path: &str) -> Vec<Expected> {
    serde_json::from_slice(&fs::read(data(path)).unwrap()).unwrap()
}

fn unpack(text: &str) -> Vec<f32> {
    let bytes = STANDARD.decode(text).unwrap();
    bytes.as_chunks().0.iter().map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[track_caller]
fn assert_agrees(local: &LocalModel, expected: &[Expected], choose: fn(&Expected) -> &str) {
    let texts: Vec<_> = expected.iter().map(|expected| expected.text.clone()).collect();
    let vectors = local.model.embed(&texts, EmbedPurpose::Document, 3);
    for (expected, vector) in expected.iter().zip(vectors) {
        let vector = vector.unwrap();
        let reference = unpack(choose(expected));
        assert_eq!(vector.len(), reference.len());
        let cosine = cosine(&vector, &reference);
        assert!(cosine > 0.9999, "{:?}: {cosine}", expected.text);
        // Alone and on one thread it has the same vector as among others on several.
        let alone =
            local.model.embed(std::slice::from_ref(&expected.text), EmbedPurpose::Document, 1);
        assert!(self::cosine(&vector, alone[0].as_ref().unwrap()) > 0.999_999);
    }
}

/// A copy of the small model, with some files changed.
fn model(changes: &[(&str, &dyn Fn(Value) -> Value)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("1_Pooling")).unwrap();
    for name in [
        "config.json",
        "tokenizer.json",
        "modules.json",
        "1_Pooling/config.json",
        "sentence_bert_config.json",
        "model.safetensors",
    ] {
        fs::copy(data("local").join(name), folder.path().join(name)).unwrap();
    }
    for (name, change) in changes {
        let path = folder.path().join(name);
        let before =
            fs::read(&path).map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).unwrap());
        fs::write(path, change(before).to_string()).unwrap();
    }
    folder
}

fn open(folder: &TempDir) -> Result<LocalModel, Error> {
    LocalModel::open(folder.path(), PromptPrefixes::default())
}

fn set(pointer: &'static str, new: Value) -> impl Fn(Value) -> Value {
    move |mut value| {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        value.pointer_mut(parent).unwrap()[name] = new.clone();
        value
    }
}

#[test]
fn vectors_are_those_of_the_reference() {
    let local = LocalModel::open(&data("local"), PromptPrefixes::default()).unwrap();
    assert_agrees(&local, &expected("local/expected.json"), |expected| &expected.mean);
    assert_eq!(local.dimensions(), 16);

    let first = set("/pooling_mode_cls_token", json!(true));
    let mean = set("/pooling_mode_mean_tokens", json!(false));
    let folder = model(&[("1_Pooling/config.json", &|value| mean(first(value)))]);
    let by_first = open(&folder).unwrap();
    assert_agrees(&by_first, &expected("local/expected.json"), |expected| &expected.first);
    assert_ne!(local.id(), by_first.id());
}

#[test]
fn vectors_of_minilm_are_those_of_the_reference() {
    let Some(folder) = std::env::var_os("A2S_TEST_MINILM") else {
        // The small model stands for it; the gate has the real one.
        return;
    };
    let local = LocalModel::open(folder.as_ref(), PromptPrefixes::default()).unwrap();
    assert_eq!(local.dimensions(), 384);
    assert_agrees(&local, &expected("minilm.fixture.json"), |expected| &expected.mean);
}

#[tokio::test]
async fn texts_have_vectors_of_length_one_unless_they_are_empty() {
    let local = open(&model(&[])).unwrap();
    let texts = ["", " \n", "…", "dog", &"dog ".repeat(10_000)].map(str::to_owned).to_vec();
    let vectors = local.embed(texts.clone(), EmbedPurpose::Query).await.unwrap();
    let present: Vec<_> = vectors.iter().map(Option::is_some).collect();
    assert_eq!(present, [false, false, true, true, true]);
    for vector in vectors.iter().flatten() {
        let length = vector.iter().map(|x| x * x).sum::<f32>();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
    }
    let embedder = super::super::Embedder::Local(local);
    assert_eq!(
        embedder.embed(texts, EmbedPurpose::Query, EmbedDeadline::Long).await.unwrap(),
        vectors
    );
}

#[test]
fn prompts_of_the_folder_or_the_configuration_come_before_texts() {
    let prompts = json!({"prompts": {"query": "send message ", "passage": "", "other": "x"}});
    let folder = model(&[("config_sentence_transformers.json", &|_| prompts.clone())]);
    let (plain, prompted) = (open(&model(&[])).unwrap(), open(&folder).unwrap());
    assert_ne!(plain.id(), prompted.id());
    let embed =
        |local: &LocalModel, text: &str, purpose| local.model.embed(&[text.to_owned()], purpose, 1);
    let long = embed(&plain, "send message dog", EmbedPurpose::Query);
    assert_eq!(embed(&prompted, "dog", EmbedPurpose::Query), long);
    assert_eq!(
        embed(&prompted, "dog", EmbedPurpose::Document),
        embed(&plain, "dog", EmbedPurpose::Document)
    );
    let given =
        PromptPrefixes { query: Some(String::new()), document: Some("send message ".to_owned()) };
    let given = LocalModel::open(folder.path(), given).unwrap();
    assert_eq!(embed(&given, "dog", EmbedPurpose::Document), long);
    assert_eq!(
        embed(&given, "dog", EmbedPurpose::Query),
        embed(&plain, "dog", EmbedPurpose::Query)
    );
}

#[test]
fn the_name_changes_with_every_file_that_matters() {
    let base = open(&model(&[])).unwrap().id().to_owned();
    assert_eq!(open(&model(&[])).unwrap().id(), base);
    for (file, pointer, value) in [
        ("config.json", "/layer_norm_eps", json!(1e-6)),
        ("sentence_bert_config.json", "/max_seq_length", json!(20)),
        ("tokenizer.json", "/model/vocab/zzz", json!(7)),
    ] {
        let changed = open(&model(&[(file, &set(pointer, value))])).unwrap();
        assert_ne!(changed.id(), base, "{file}");
    }
}

#[test]
fn what_is_not_read_is_refused_with_its_name() {
    type Case = (&'static str, &'static str, Value, &'static str);
    let cases: [Case; 14] = [
        ("config.json", "/model_type", json!("mpnet"), "`mpnet` models are not supported"),
        ("config.json", "/hidden_act", json!("swish"), "activation `swish`"),
        ("config.json", "/position_embedding_type", json!("relative_key"), "absolute"),
        ("config.json", "/num_attention_heads", json!(0), "out of bounds"),
        ("config.json", "/num_attention_heads", json!(5), "out of bounds"),
        ("config.json", "/num_hidden_layers", json!(1_000_000), "out of bounds"),
        ("config.json", "/num_hidden_layers", json!(3), "`encoder.layer.2."),
        ("config.json", "/hidden_size", json!(32), "is ["),
        ("config.json", "/vocab_size", json!(3), "the model does not have"),
        ("tokenizer.json", "/model/type", json!("Unigram"), "word pieces"),
        ("tokenizer.json", "/normalizer/lowercase", json!(false), "uncased"),
        ("tokenizer.json", "/model/vocab/dog", json!(-1), "\"dog\" has no number"),
        ("modules.json", "/1/path", json!("../elsewhere"), "outside the folder"),
        ("modules.json", "/2/type", json!("sentence_transformers.models.Dense"), "`Dense`"),
    ];
    for (file, pointer, value, told) in cases {
        let folder = model(&[(file, &set(pointer, value))]);
        let refused = open(&folder).unwrap_err().to_string();
        assert!(refused.contains(told), "{file} {pointer}: {refused}");
        assert!(refused.contains(&folder.path().display().to_string()), "{refused}");
    }
    let max = set("/pooling_mode_max_tokens", json!(true));
    let refused = open(&model(&[("1_Pooling/config.json", &max)])).unwrap_err().to_string();
    assert!(refused.contains("pooling"), "{refused}");
}

#[test]
fn broken_weights_are_refused() {
    let whole = fs::read(data("local/model.safetensors")).unwrap();
    for cut in [0, 7, 8, 100, whole.len() - 1] {
        let folder = model(&[]);
        fs::write(folder.path().join("model.safetensors"), &whole[..cut]).unwrap();
        let refused = open(&folder).unwrap_err().to_string();
        assert!(refused.contains("model.safetensors"), "{refused}");
    }
    let mut poisoned = whole;
    let end = poisoned.len();
    poisoned[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    let folder = model(&[]);
    fs::write(folder.path().join("model.safetensors"), poisoned).unwrap();
    assert!(open(&folder).unwrap_err().to_string().contains("a number that is not finite"));
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    assert!(open(&folder).unwrap_err().to_string().contains("model.safetensors"));
}
