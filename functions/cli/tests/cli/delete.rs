//! `delete` on a terminal: the question, and the object that is gone after yes.

use crate::inspect::Inspected;
use driftless_harness::terminal::{Ended, Terminal};

#[test]
fn a_deletion_asks_first() {
    let hub = Inspected::start();
    let kubeconfig = hub.kubeconfig();
    let answer = |line: &str| -> Ended {
        let args = ["delete", "kustomization", "apps", "-n", "team-b"];
        let environment = [("KUBECONFIG", kubeconfig.as_str())];
        let terminal = Terminal::start(&hub.home(), (24, 100), &args, &environment);
        terminal.until("the question", |rows| {
            rows.iter().any(|row| {
                row.contains("Are you sure you want to delete this kustomization? [y/N]")
            })
        });
        terminal.enter(line);
        terminal.end()
    };
    for no in ["n", "", "perhaps"] {
        let ended = answer(no);
        assert_eq!(ended.code, Some(1), "{}", ended.text);
        assert!(ended.text.contains("nothing was deleted"), "{}", ended.text);
        let there = hub.run("get kustomizations apps -n team-b -o name");
        assert_eq!(there.code, 0, "{}", there.err);
    }
    let ended = answer("y");
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    for words in [
        "This also deletes the ",
        "deleting kustomization apps in team-b namespace",
        "kustomization deleted",
    ] {
        assert!(ended.text.contains(words), "{words}: {}", ended.text);
    }
}
