//! A model of a disk for the files that one thread writes: only flushed bytes survive a power cut for sure.
//!
//! The files in the folder of a test are the view of the system, with all that was written. The model has the
//! bytes that are on the disk. After a failed flush the system counts its bytes as flushed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The length that a disk writes whole or not at all.
const SECTOR: usize = 64;

thread_local! {
    static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) };
}

#[derive(Debug, Default)]
struct Disk {
    /// The files by inode.
    files: BTreeMap<u64, FileState>,
    fault: Option<Fault>,
    /// The number of operations before the process stops.
    stop_after: Option<u32>,
    is_stopped: bool,
}

/// Operations that fail.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    /// The number of operations before the first of them.
    pub(super) after: u32,
    /// The number of operations that fail.
    pub(super) times: u32,
    /// The sectors that a failed flush has written, by the bits of their numbers.
    pub(super) mask: u64,
    /// Set when the system forgets the bytes of a failed flush, and reads the disk again.
    pub(super) is_forgetful: bool,
}

/// The bytes of a file on the disk, and those that a flush would write.
#[derive(Debug, Default)]
struct FileState {
    durable: Vec<u8>,
    is_dirty: Vec<bool>,
}

impl FileState {
    /// Writes dirty bytes to the disk: those of the sectors that a mask chooses.
    fn write_back(&mut self, content: &[u8], mask: u64) {
        for (at, _) in self.is_dirty.iter().enumerate().filter(|(_, is_dirty)| **is_dirty) {
            if is_chosen(at / SECTOR, mask) {
                if self.durable.len() <= at {
                    self.durable.resize(at + 1, 0);
                }
                self.durable[at] = content[at];
            }
        }
    }
}

fn is_chosen(number: usize, mask: u64) -> bool {
    mask >> (number % 64) & 1 == 1
}

fn read(mut file: &File) -> Vec<u8> {
    let mut content = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut content).unwrap();
    content
}

fn write_content(mut file: &File, position: u64, bytes: &[u8]) {
    file.seek(SeekFrom::Start(position)).unwrap();
    file.write_all(bytes).unwrap();
}

impl Disk {
    fn state(&mut self, file: &File) -> &mut FileState {
        self.files.entry(file.metadata().unwrap().ino()).or_insert_with(|| {
            let durable = read(file);
            FileState { is_dirty: vec![false; durable.len()], durable }
        })
    }

    /// Counts an operation. Returns the fault that makes it fail.
    fn begin_operation(&mut self) -> io::Result<Option<Fault>> {
        if let Some(left) = &mut self.stop_after {
            self.is_stopped |= *left == 0;
            *left = left.saturating_sub(1);
        }
        if self.is_stopped {
            return Err(io::Error::other("the machine has stopped"));
        }
        let Some(fault) = &mut self.fault else { return Ok(None) };
        if 0 < fault.after {
            fault.after -= 1;
            return Ok(None);
        }
        if fault.times == 0 {
            return Ok(None);
        }
        fault.times -= 1;
        Ok(Some(*fault))
    }

    /// Writes bytes; half of them if this fails.
    fn write(&mut self, file: &File, position: u64, bytes: &[u8]) -> io::Result<()> {
        let fault = self.begin_operation()?;
        let written = if fault.is_some() { &bytes[..bytes.len() / 2] } else { bytes };
        let state = self.state(file);
        let (start, end) = (position as usize, position as usize + written.len());
        if state.is_dirty.len() < end {
            state.is_dirty.resize(end, false);
        }
        state.is_dirty[start..end].fill(true);
        write_content(file, position, written);
        fault.map_or(Ok(()), |_| Err(io::Error::other("no space")))
    }

    fn set_length(&mut self, file: &File, length: u64) -> io::Result<()> {
        if self.begin_operation()?.is_some() {
            return Err(io::Error::other("the length cannot be set"));
        }
        self.state(file).is_dirty.resize(length as usize, false);
        file.set_len(length)
    }

    fn flush(&mut self, file: &File) -> io::Result<()> {
        let fault = self.begin_operation()?;
        let content = read(file);
        let state = self.state(file);
        state.write_back(&content, fault.map_or(u64::MAX, |fault| fault.mask));
        let Some(fault) = fault else {
            state.durable.resize(content.len(), 0);
            state.is_dirty.fill(false);
            return Ok(());
        };
        if fault.is_forgetful {
            for at in (0..content.len()).filter(|at| state.is_dirty[*at]) {
                let byte = state.durable.get(at).copied().unwrap_or_default();
                write_content(file, at as u64, &[byte]);
            }
        }
        state.is_dirty.fill(false);
        Err(io::Error::other("the flush has failed"))
    }
}

fn with_disk<T>(run: impl FnOnce(&mut Disk) -> T) -> Option<T> {
    DISK.with_borrow_mut(|disk| disk.as_mut().map(run))
}

/// The result of a write if the thread has a model.
pub(super) fn write(file: &File, position: u64, bytes: &[u8]) -> Option<io::Result<()>> {
    with_disk(|disk| disk.write(file, position, bytes))
}

/// The result of a change of the length if the thread has a model.
pub(super) fn set_length(file: &File, length: u64) -> Option<io::Result<()>> {
    with_disk(|disk| disk.set_length(file, length))
}

/// The result of a flush if the thread has a model.
pub(super) fn flush(file: &File) -> Option<io::Result<()>> {
    with_disk(|disk| disk.flush(file))
}

/// Gives the thread a new disk.
pub(super) fn begin() {
    DISK.set(Some(Disk::default()));
}

/// Removes the model of the thread.
pub(super) fn end() {
    DISK.set(None);
}

pub(super) fn set_fault(fault: Fault) {
    with_disk(|disk| disk.fault = Some(fault));
}

/// Stops the process after so many operations. Later ones fail without an effect.
pub(super) fn stop_after(operations: u32) {
    with_disk(|disk| disk.stop_after = Some(operations));
}

pub(super) fn is_stopped() -> bool {
    with_disk(|disk| disk.is_stopped).unwrap_or_default()
}

/// Starts the machine again, without faults. With a mask, a power cut came before: each file of the folder has
/// its flushed bytes, and of the others the sectors that the mask chooses.
pub(super) fn restart(folder: &Path, power_cut: Option<u64>) {
    with_disk(|disk| {
        let mut states = BTreeMap::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let inode = std::fs::metadata(&path).unwrap().ino();
            let Some(mut state) = disk.files.remove(&inode) else { continue };
            if let Some(mask) = power_cut {
                let content = std::fs::read(&path).unwrap();
                state.write_back(&content, mask);
                if is_chosen(7, mask) || is_chosen(11, mask) && state.durable.len() < content.len()
                {
                    state.durable.resize(content.len(), 0);
                }
                std::fs::write(&path, &state.durable).unwrap();
                state.is_dirty = vec![false; state.durable.len()];
            }
            states.insert(inode, state);
        }
        *disk = Disk { files: states, ..Disk::default() };
    });
}
