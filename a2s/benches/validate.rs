//! How fast documents are validated, and in how much memory: 10,000 of them in one process.
//!
//! The documents are the repository's own, each with another name, version and description, and a
//! hundred large ones. Parsing alone is measured in the same run, in turns, so that a machine that
//! changes its speed changes all sides: read the ratios. The aim is a compilation within twice the time
//! of its YAML parser. `cargo bench -p a2s --bench validate` (or `-- --quick` for a look).

#![expect(clippy::unwrap_used, reason = "a bench that cannot set up its world has to fail")]
#![expect(clippy::print_stdout, reason = "the table is what a bench is for")]

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use granit_parser::Parser;

/// The allocator of the command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How many documents there are.
const DOCUMENTS: usize = 10_000;

/// The number of large documents, and of the steps of each.
const LARGE: (usize, usize) = (100, 60);

/// What is measured: its name, its texts, how many threads, and what is done with each text.
type Job<'j> = (&'j str, &'j [String], usize, &'j (dyn Fn(&str) + Sync));

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (count, rounds) = if quick { (1_000, 3) } else { (DOCUMENTS, 5) };
    let documents = documents(count);
    let json: Vec<String> = documents
        .iter()
        .map(|source| a2s::parse_value(source.as_bytes()).unwrap().to_string())
        .collect();
    let large: Vec<String> = (0..LARGE.0).map(|number| large_document(number, LARGE.1)).collect();
    let cores = std::thread::available_parallelism().unwrap().get();
    let kib = |sources: &[String]| bytes(sources) / sources.len() as f64 / 1024.0;
    println!(
        "{count} documents of {:.1} KiB on average and {} of {:.1} KiB, {rounds} rounds, median; {cores} cores",
        kib(&documents),
        large.len(),
        kib(&large)
    );
    let jobs: [Job<'_>; 9] = [
        ("JSON text, serde_json alone", &json, 1, &|source| {
            let value: serde_json::Value = serde_json::from_str(source).unwrap();
            std::hint::black_box(value);
        }),
        ("YAML text, granit-parser alone", &documents, 1, &parse),
        ("YAML text, read into values", &documents, 1, &|source| {
            std::hint::black_box(a2s::parse_value(source.as_bytes()).unwrap());
        }),
        ("YAML text, compiled", &documents, 1, &compile),
        ("JSON text, compiled", &json, 1, &compile),
        ("YAML text, compiled on all cores", &documents, cores, &compile),
        ("JSON text, compiled on all cores", &json, cores, &compile),
        ("large YAML, granit-parser alone", &large, 1, &parse),
        ("large YAML, compiled", &large, 1, &compile),
    ];
    let (times, memory) = measure(&jobs, rounds);
    println!();
    println!("  {:<34} {:>10} {:>9} {:>12}", "", "documents/s", "MiB/s", "against JSON");
    for ((name, sources, ..), time) in jobs.iter().zip(&times) {
        let (time, count) = (time.as_secs_f64(), sources.len() as f64);
        println!(
            "  {name:<34} {:>10.0} {:>9.1} {:>10.1} ×",
            count / time,
            bytes(sources) / f64::from(1 << 20) / time,
            time / count / times[0].as_secs_f64() * json.len() as f64,
        );
    }
    println!();
    for (name, compiled, parsed) in [("documents", 3, 1), ("large documents", 8, 7)] {
        let ratio = times[compiled].as_secs_f64() / times[parsed].as_secs_f64();
        println!("{name}: a compilation takes {ratio:.2} × the time of the YAML parser alone");
    }
    println!();
    println!("peak memory over what the texts take (Linux only)");
    for ((name, ..), memory) in jobs.iter().zip(memory) {
        let memory = memory
            .map_or_else(|| "unknown".to_owned(), |kib| format!("{:.1} MiB", kib as f64 / 1024.0));
        println!("  {name:<34} {memory:>12}");
    }
}

/// The median time of each job, and its peak memory in KiB. The jobs take turns. On Linux, the time of a job
/// with one thread is processor time, which other work on the machine changes less.
fn measure(jobs: &[Job<'_>], rounds: usize) -> (Vec<Duration>, Vec<Option<u64>>) {
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); jobs.len()];
    let mut memory: Vec<Option<u64>> = vec![None; jobs.len()];
    for _ in 0..rounds {
        for (index, (_, sources, threads, work)) in jobs.iter().enumerate() {
            let before = forget_peak();
            let (start, start_on_core) = (Instant::now(), thread_time());
            run(sources, *threads, *work);
            let on_core = thread_time().zip(start_on_core).filter(|_| *threads == 1);
            times[index].push(on_core.map_or_else(|| start.elapsed(), |(end, start)| end - start));
            memory[index] = peak_over(before).max(memory[index]);
        }
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    };
    (times.iter_mut().map(median).collect(), memory)
}

fn bytes(sources: &[String]) -> f64 {
    sources.iter().map(String::len).sum::<usize>() as f64
}

/// So many documents: those of the repository over and over, none like another.
fn documents(count: usize) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut sources = Vec::new();
    for folder in ["capabilities", "tests/fixtures/documents/valid"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                sources.push((path.clone(), std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    sources.sort();
    let vary = |number: usize| {
        let (path, source) = &sources[number % sources.len()];
        let mut varied = String::with_capacity(source.len() + 64);
        for line in source.lines() {
            match line.split_once(": ") {
                Some(("name", name)) => varied
                    .extend([&format!("name: {}V{number}", name.trim_matches(['"', '\''])), "\n"]),
                Some(("version", _)) => varied.extend([&format!("version: 1.{number}.0"), "\n"]),
                // The digest is another one; a placeholder is a warning.
                Some(("checksum", _)) => varied.push_str("checksum: \"<checksum>\"\n"),
                _ => varied.extend([line, "\n"]),
            }
        }
        let compilation = a2s::compile(varied.as_bytes());
        let (path, diagnostics) = (path.display(), compilation.diagnostics);
        assert!(compilation.document.is_some(), "{path}: {diagnostics:?}\n{varied}");
        varied
    };
    (0..count).map(vary).collect()
}

/// A document with so many steps, each with a task and outputs of its own.
fn large_document(number: usize, steps: usize) -> String {
    let mut text = format!(
        "a2s: \"1.1.0\"\nname: Large{number}\ndescription: Gets the weather of many places\n\
         domains: [api.example.com]\nversion: \"1.0.0\"\nchecksum: \"<checksum>\"\n\
         authors:\n  - name: A2S\nparameters:\n  - name: city\n    type: string\n    required: true\n\
         execution:\n  type: parallel\n  steps:\n"
    );
    for step in 0..steps {
        write!(
            text,
            r##"    - id: getWeather{step}
      format: OpenAPI
      task:
        openapi: "3.0.3"
        info: {{title: Weather {step}, version: "1.0.0"}}
        servers:
          - url: https://api.example.com/v{step}
        paths:
          /current/{{city}}:
            get:
              operationId: getWeather{step}
              summary: The weather now
              parameters:
                - name: city
                  in: path
                  required: true
                  schema: {{type: string, minLength: 1}}
                - name: units
                  in: query
                  description: The units of temperatures
                  schema:
                    type: string
                    enum: [metric, imperial]
              responses:
                "200":
                  description: The weather
                  content:
                    application/json:
                      schema:
                        type: object
                        required: [temperature, text]
                        properties:
                          temperature: {{type: number}}
                          text: {{type: string}}
                          days:
                            type: array
                            items: {{type: object, properties: {{high: {{type: number}}}}}}
      input_mapping:
        pathParameters:
          city: "${{city}}"
        queryParameters:
          units: metric
      output_mapping:
        temperature{step}: "$.temperature"
        text{step}: "$.text"
        high{step}: "$.days[0].high"
"##
        )
        .unwrap();
    }
    text
}

fn parse(source: &str) {
    for event in Parser::new_from_str(source) {
        std::hint::black_box(event.unwrap());
    }
}

fn compile(source: &str) {
    let compilation = a2s::compile(source.as_bytes());
    assert!(compilation.document.is_some());
    std::hint::black_box(compilation);
}

/// Works through all of `sources`, each thread through its share.
fn run(sources: &[String], threads: usize, work: &(dyn Fn(&str) + Sync)) {
    if threads == 1 {
        return sources.iter().for_each(|source| work(source));
    }
    std::thread::scope(|scope| {
        for share in sources.chunks(sources.len().div_ceil(threads)) {
            scope.spawn(move || share.iter().for_each(|source| work(source)));
        }
    });
}

/// The time that this thread has been on a core (Linux only).
fn thread_time() -> Option<Duration> {
    let account = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    account.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// A line of the kernel's account of this process, in KiB.
fn status(line: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|found| found.strip_prefix(line))?;
    line.trim_start_matches(':').trim().strip_suffix(" kB")?.parse().ok()
}

/// Has the kernel forget the highest memory of this process, and gives the memory now.
fn forget_peak() -> Option<u64> {
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    status("VmRSS")
}

/// How much more than `before` this process has had at a time, in KiB.
fn peak_over(before: Option<u64>) -> Option<u64> {
    Some(status("VmHWM")?.saturating_sub(before?))
}
