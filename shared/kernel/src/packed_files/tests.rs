use super::*;
use bytes::Bytes;
use driftless_manifest::{EntryKind, TreePath};
use std::collections::{BTreeMap, BTreeSet};

const LIMITS: Limits = Limits {
    bytes: 64 << 20,
    files: 10_000,
};

fn path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

/// Random numbers that are the same in each run (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from(mixed >> 33).unwrap() % end
    }

    fn text(&mut self, most: usize) -> Vec<u8> {
        let length = self.below(most);
        (0..length)
            .map(|_| u8::try_from(self.below(256)).unwrap())
            .collect()
    }

    fn tree(&mut self) -> FileTree {
        let mut tree = FileTree::new();
        for number in 0..self.below(300) {
            let depth = 1 + self.below(4);
            let mut parts: Vec<String> = (0..depth)
                .map(|_| ["a", "b-", "c.d", "é"][self.below(4)].to_owned())
                .collect();
            parts.push(format!("f{number}"));
            let kinds = [EntryKind::File, EntryKind::Executable, EntryKind::Link];
            let kind = kinds[self.below(3)].clone();
            let most = [1, 50, 3000, 60_000][self.below(4)];
            let content = self.text(most);
            tree.insert(path(&parts.join("/")), kind, content).unwrap();
        }
        tree
    }
}

fn read(blob: &[u8]) -> PackedIndex {
    match PackedIndex::read(blob, LIMITS).unwrap() {
        Head::Index(index) => index,
        Head::Incomplete(end) => panic!("the index ends at {end}"),
    }
}

/// Returns the contents of these files from their pieces alone.
fn read_by_need(blob: &[u8], index: &PackedIndex, wanted: &[TreePath]) -> FileTree {
    let mut tree = FileTree::without_contents(index.tree().clone());
    let pieces: BTreeSet<usize> = wanted
        .iter()
        .map(|path| index.piece_of(path).unwrap())
        .collect();
    for at in pieces {
        let piece = &index.pieces()[at];
        let range = index.range_of(piece);
        let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        let contents = piece.unpack(&blob[range]).unwrap();
        tree.fill(index.files_of(piece, &contents));
    }
    tree
}

#[test]
fn every_file_is_read_as_from_the_whole_tree() {
    for seed in 0..20 {
        let mut numbers = Numbers(seed);
        let tree = numbers.tree();
        let (blob, written) = pack(&tree).unwrap();
        assert_eq!(blob, pack(&tree.clone()).unwrap().0, "seed {seed}");
        let index = read(&blob);
        assert_eq!(index.tree(), &tree.shared_index(), "seed {seed}");
        assert_eq!(index.pieces(), written.pieces(), "seed {seed}");
        let files = index.pieces().iter().map(|piece| piece.files);
        assert_eq!(files.sum::<usize>(), tree.index().len(), "seed {seed}");
        let all: Vec<TreePath> = tree.index().iter().map(|(path, _)| path.clone()).collect();
        for path in all.iter().step_by(7) {
            let part = read_by_need(&blob, &index, std::slice::from_ref(path));
            assert_eq!(
                part.content(path),
                tree.content(path),
                "seed {seed}: {path}"
            );
        }
        let whole = read_by_need(&blob, &written, &all);
        for path in &all {
            assert_eq!(
                whole.content(path),
                tree.content(path),
                "seed {seed}: {path}"
            );
        }
        for piece in written.pieces() {
            let contents = written.contents_of(piece, &tree);
            assert_eq!(contents.len() as u64, piece.bytes(), "seed {seed}");
        }
        assert_eq!(index.piece_of(&path("nothing")), None);
    }
}

#[test]
fn a_file_of_one_directory_is_read_from_a_small_part() {
    let content = |number: usize| format!("{number}\n").repeat(300);
    let mut tree = FileTree::new();
    for number in 0..1000 {
        let at = path(&format!("apps/app-{number:04}/config.yaml"));
        tree.insert(at, EntryKind::File, content(number)).unwrap();
    }
    let (blob, index) = pack(&tree).unwrap();
    assert!(index.pieces().len() > 20, "{}", index.pieces().len());
    let at = path("apps/app-0500/config.yaml");
    let piece = &index.pieces()[index.piece_of(&at).unwrap()];
    assert!(piece.bytes() < blob.len() as u64 * 2, "{}", piece.bytes());
    assert!(piece.bytes() <= 64 << 10, "{}", piece.bytes());

    // A new directory leaves most pieces unchanged.
    let digests = |index: &PackedIndex| -> BTreeSet<[u8; 32]> {
        index.pieces().iter().map(Piece::digest).collect()
    };
    let before = digests(&index);
    let mut changed = tree.clone();
    let new = path("apps/app-0200-new/config.yaml");
    changed.insert(new, EntryKind::File, content(7)).unwrap();
    let after = digests(&pack(&changed).unwrap().1);
    let new = after.difference(&before).count();
    assert!(new <= 8, "{new} of {} pieces are new", after.len());
}

#[test]
fn the_index_may_need_more_than_the_first_bytes() {
    let tree = FileTree::from_files([("a/b", "x"), ("c", "y")]).unwrap();
    let (blob, _) = pack(&tree).unwrap();
    let mut ends = BTreeMap::new();
    for cut in 0..blob.len() {
        let found = match PackedIndex::read(&blob[..cut], LIMITS) {
            Ok(Head::Index(_)) => "index",
            Ok(Head::Incomplete(end)) => {
                assert!(end <= blob.len() as u64 && end > cut as u64);
                "incomplete"
            }
            Err(_) => "error",
        };
        ends.entry(found).or_insert(cut);
    }
    let order: Vec<_> = ["error", "incomplete", "index"]
        .map(|kind| ends[kind])
        .into();
    assert!(order.is_sorted(), "{ends:?}");
}

#[test]
fn damaged_bytes_are_refused() {
    let tree = FileTree::from_files([("a/b", "some text"), ("c", "other text")]).unwrap();
    let (blob, index) = pack(&tree).unwrap();
    let end = usize::try_from(index.start).unwrap();
    for at in 0..blob.len() {
        let mut damaged = blob.clone();
        damaged[at] ^= 1;
        if at < end {
            let read = PackedIndex::read(&damaged, LIMITS);
            assert!(!matches!(read, Ok(Head::Index(_))), "byte {at}");
        } else {
            let piece = &index.pieces()[0];
            assert!(piece.unpack(&damaged[end..]).is_err(), "byte {at}");
        }
    }
    let piece = &index.pieces()[0];
    assert!(piece.unpack(&blob[end..blob.len() - 1]).is_err());
}

#[test]
fn an_index_above_the_limits_is_refused() {
    let tree = FileTree::from_files([("a", "12345678"), ("b", "")]).unwrap();
    let (blob, _) = pack(&tree).unwrap();
    for limits in [
        Limits { files: 1, ..LIMITS },
        Limits { bytes: 7, ..LIMITS },
        Limits {
            bytes: 60,
            ..LIMITS
        },
    ] {
        assert!(PackedIndex::read(&blob, limits).is_err(), "{limits:?}");
    }
}

#[test]
fn an_empty_tree_and_a_tree_without_contents() {
    let (blob, _) = pack(&FileTree::new()).unwrap();
    assert!(read(&blob).tree().is_empty());
    let tree = FileTree::from_files([("a", "x")]).unwrap();
    let partial = FileTree::without_contents(tree.shared_index());
    assert!(matches!(pack(&partial), Err(FormatError::NotPacked(_))));
    let content: Option<&Bytes> = partial.content(&path("a"));
    assert_eq!(content, None);
}
