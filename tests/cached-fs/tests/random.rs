//! Random operations on two mounts. A model, written by the definition, predicts each read, each size and
//! the backing file.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};

use common::{Lock, Mount, Mounts, read, set_lock, write};

const PAGE: usize = 4096;
/// Bytes of the largest file.
const LIMIT: usize = 3 * PAGE + 500;

/// What one node knows of the file.
#[derive(Default)]
struct Node {
    pages: BTreeMap<usize, Vec<u8>>,
    /// Places of bytes that were written since the last write-back.
    written: BTreeSet<usize>,
    size: usize,
}

impl Node {
    fn dirty(&self) -> BTreeSet<usize> {
        self.written.iter().map(|place| place / PAGE).collect()
    }

    fn end_of_dirty(&self) -> usize {
        self.written.last().map_or(0, |place| place + 1)
    }

    fn fill(&mut self, backing: &[u8], page: usize) {
        let size = self.size;
        let byte = |place| if place < size { backing.get(place).copied().unwrap_or(0) } else { 0 };
        self.pages.entry(page).or_insert_with(|| (page * PAGE..(page + 1) * PAGE).map(byte).collect());
    }

    fn read(&mut self, backing: &[u8], offset: usize, bytes: usize) -> Vec<u8> {
        let places = offset..(offset + bytes).min(self.size);
        places
            .map(|place| {
                self.fill(backing, place / PAGE);
                self.pages[&(place / PAGE)][place % PAGE]
            })
            .collect()
    }

    fn write(&mut self, backing: &[u8], offset: usize, data: &[u8]) {
        for (place, byte) in (offset..).zip(data) {
            self.fill(backing, place / PAGE);
            self.pages.get_mut(&(place / PAGE)).expect("the page is filled")[place % PAGE] = *byte;
            self.written.insert(place);
        }
        self.size = self.size.max(offset + data.len());
    }

    /// Returns the number of bytes of the other node that are lost.
    fn write_back(&mut self, backing: &mut Vec<u8>) -> u64 {
        let mut lost = 0;
        for page in self.dirty() {
            for place in page * PAGE..((page + 1) * PAGE).min(self.size) {
                let byte = self.pages[&page][place % PAGE];
                let was_there = place < backing.len();
                backing.resize(backing.len().max(place + 1), 0);
                lost += u64::from(was_there && !self.written.contains(&place) && backing[place] != byte);
                backing[place] = byte;
            }
        }
        self.written.clear();
        lost
    }

    fn revalidate(&mut self, backing: &[u8]) {
        let dirty = self.dirty();
        self.pages.retain(|page, _| dirty.contains(page));
        self.size = backing.len().max(self.end_of_dirty());
    }

    fn truncate(&mut self, backing: &mut Vec<u8>, size: usize) -> u64 {
        let lost = self.write_back(backing);
        backing.resize(size, 0);
        self.pages.retain(|page, _| page * PAGE < size);
        if let Some(last) = self.pages.get_mut(&(size / PAGE)) {
            last[size % PAGE..].fill(0);
        }
        self.size = size;
        lost
    }
}

/// Random numbers by xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }
}

/// One operation on one mount and on the model. Returns the number of lost bytes.
fn step(random: &mut Random, mount: &Mount, file: &mut File, node: &mut Node, backing: &mut Vec<u8>) -> u64 {
    let offset = random.below(LIMIT);
    // Whole pages are written without a read.
    let (offset, bytes) =
        if random.below(8) == 0 { (offset / PAGE * PAGE, PAGE) } else { (offset, 1 + random.below(700)) };
    match random.below(16) {
        0..5 => {
            let data = vec![1 + random.below(255) as u8; bytes];
            node.write(backing, offset, &data);
            write(file, offset as u64, &data);
            0
        }
        5..10 => {
            let found = read(file, offset as u64, bytes);
            assert!(found == node.read(backing, offset, bytes), "{bytes} bytes from {offset} on");
            0
        }
        10 => {
            file.sync_all().expect("the file is synced");
            node.write_back(backing)
        }
        11 => {
            set_lock(file, Lock::Ofd, libc::F_RDLCK, 0, 1).expect("the lock is free");
            let lost = node.write_back(backing);
            node.revalidate(backing);
            set_lock(file, Lock::Ofd, libc::F_UNLCK, 0, 1).expect("the lock is released");
            lost
        }
        12 => {
            // An open keeps dirty pages, and its close writes them back.
            let second = mount.open("file");
            node.revalidate(backing);
            let found = read(&second, offset as u64, bytes);
            assert!(found == node.read(backing, offset, bytes), "{bytes} bytes from {offset} on, opened");
            drop(second);
            node.write_back(backing)
        }
        13 => {
            *file = mount.open("file");
            node.revalidate(backing);
            node.write_back(backing)
        }
        14 => {
            file.set_len(offset as u64).expect("the file is truncated");
            node.truncate(backing, offset)
        }
        _ => {
            let found = file.metadata().expect("the file has attributes").len();
            assert_eq!(found as usize, backing.len().max(node.end_of_dirty()), "the size");
            0
        }
    }
}

#[test]
fn model_predicts_every_read() {
    let Some(mounts) = Mounts::start(&["--attribute-ms", "0"]) else { return };
    let both = [&mounts.a, &mounts.b];
    let mut lost = [0; 2];
    for seed in 1..=20 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        fs::write(mounts.backing("file"), vec![9; random.below(LIMIT)]).expect("the file is written");
        let mut backing = mounts.bytes("file");
        let mut nodes = [Node::default(), Node::default()];
        for node in &mut nodes {
            node.revalidate(&backing);
        }
        let mut files = both.map(|mount| mount.open("file"));
        for _ in 0..300 {
            let which = random.below(2);
            let (file, node) = (&mut files[which], &mut nodes[which]);
            lost[which] += step(&mut random, both[which], file, node, &mut backing);
            assert!(mounts.bytes("file") == backing, "the backing file, seed {seed}");
        }
        for (which, file) in files.into_iter().enumerate() {
            drop(file);
            lost[which] += nodes[which].write_back(&mut backing);
        }
        assert!(mounts.bytes("file") == backing, "the backing file at the end, seed {seed}");
    }
    assert_eq!(lost, both.map(|mount| mount.counter("foreign_bytes")));
    assert!(lost.iter().all(|&lost| lost > 1000), "the operations do not meet: {lost:?}");
}
