//! Templates (cases 23 and 26): endless ones, growing ones, and requests for more than the chart.

use super::engine::{Case, Want, answered, case, file, refused, spends, template, with};

pub fn cases() -> Vec<Case> {
    let mut out = purity();
    out.extend(endless());
    out.extend(growth());
    out.extend(slow());
    out.extend(shared_values());
    out.extend(messages());
    out
}

/// Templates have no clock, environment, network or cluster except the inputs.
fn purity() -> Vec<Case> {
    let undefined = || refused(&["templates/x.yaml", "not defined"]);
    vec![
        template("that asks for env", undefined(), "{{ env \"HOME\" }}"),
        template(
            "that asks for expandenv",
            undefined(),
            "{{ expandenv \"$HOME\" }}",
        ),
        template(
            "that asks for a host",
            answered(&["a: .x"]),
            "a: .{{ getHostByName \"localhost\" }}x",
        ),
        template(
            "that asks for an object",
            answered(&["a: map[]."]),
            "a: {{ lookup \"v1\" \"Secret\" \"kube-system\" \"\" }}.",
        ),
        template(
            "that asks for the time",
            answered(&["a: 1970-01-01 00:00:00 +0000 UTC"]),
            "a: {{ now }}",
        ),
        template(
            "that asks for chance",
            answered(&["a: true"]),
            "a: {{ eq (len (randAlphaNum 20)) 20 }}",
        ),
    ]
}

/// Templates that would never end.
fn endless() -> Vec<Case> {
    let nested = || Want::Refused(vec!["templates/x.yaml".to_owned()]);
    let tpl = "{{ $t := \"{{ tpl .t . }}\" }}{{ tpl $t (dict \"t\" $t) }}";
    vec![
        spends(
            "with a range of until 1e9",
            "{{ range until 1000000000 }}x{{ end }}",
        ),
        spends("with a range of 1e9", "{{ range 1000000000 }}{{ end }}"),
        spends(
            "with ranges in ranges",
            "{{ range 9999 }}{{ range 9999 }}{{ range 9999 }}{{ end }}{{ end }}{{ end }}",
        ),
        spends(
            "with a range of seq",
            "{{ range splitList \" \" (seq 1 1000000000) }}x{{ end }}",
        ),
        template(
            "that includes itself",
            nested(),
            "{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}",
        ),
        template(
            "that calls itself",
            nested(),
            "{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}",
        ),
        template(
            "that includes itself two times",
            nested(),
            "{{ define \"a\" }}{{ include \"a\" . }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}",
        ),
        template("of tpl of itself", nested(), tpl),
        template(
            "of tpl and include in turn",
            nested(),
            "{{ define \"a\" }}{{ tpl \"{{ include \\\"a\\\" . }}\" . }}{{ end }}{{ include \"a\" . }}",
        ),
        template(
            "that forks at every level",
            nested(),
            "{{ define \"a\" }}{{ if lt . 60 }}{{ include \"a\" (add1 .) }}{{ include \"a\" (add1 .) }}{{ end }}{{ end }}{{ include \"a\" 1 }}",
        ),
        template(
            "of 100,000 parentheses",
            refused(&["templates/x.yaml"]),
            &format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000)),
        ),
        template(
            "of 100,000 nested blocks",
            refused(&["templates/x.yaml"]),
            &format!(
                "{}{}",
                "{{ if 1 }}".repeat(100_000),
                "{{ end }}".repeat(100_000)
            ),
        ),
        template(
            "of 4 MiB of actions",
            Want::Ends,
            &"{{ . }}".repeat(600_000),
        ),
        case("with 20,000 templates that include all", Want::Ends, || {
            let all = "{{ range until 2000 }}{{ include \"top/templates/y.txt\" $ }}{{ end }}";
            let mut files = vec![file("templates/y.txt", "x")];
            files.extend((0..15_000).map(|i| file(&format!("templates/t{i}.txt"), all)));
            with(files)
        }),
    ]
}

/// Templates with a small source and a large output.
fn growth() -> Vec<Case> {
    let big = "{{ $b := repeat 20000000 \"ab\" }}";
    let mid = "{{ $b := repeat 1000000 \"ab\" }}";
    [
        ("repeat", "{{ repeat 1000000000 \"xxxxxxxxxx\" }}".to_owned()),
        ("repeat of overflow", "{{ repeat 9223372036854775807 \"xx\" }}".to_owned()),
        ("indent", "{{ indent 2000000000 \"a\\nb\" }}".to_owned()),
        ("nindent", "{{ nindent 2000000000 \"a\\nb\" }}".to_owned()),
        ("indent of many lines", "{{ indent 1000000 (repeat 1000000 \"\\n\") }}".to_owned()),
        ("wrapWith", format!("{mid}{{{{ wrapWith 1 (repeat 10000 \"x\") $b }}}}")),
        ("replace", format!("{mid}{{{{ replace \"a\" (repeat 100000 \"x\") $b }}}}")),
        ("replace of nothing", format!("{mid}{{{{ replace \"\" (repeat 100000 \"x\") $b }}}}")),
        ("regexReplaceAll", format!("{mid}{{{{ regexReplaceAll \".\" $b (repeat 100000 \"x\") }}}}")),
        ("regexReplaceAll of groups", format!("{mid}{{{{ regexReplaceAll \"(?s).+\" $b (repeat 1000000 \"$0\") }}}}")),
        ("regexReplaceAllLiteral", format!("{mid}{{{{ regexReplaceAllLiteral \".\" $b (repeat 100000 \"x\") }}}}")),
        ("join", format!("{mid}{{{{ join $b (until 100000) }}}}")),
        ("until", "{{ until 4000000000 | len }}".to_owned()),
        ("untilStep", "{{ untilStep 0 4000000000 1 | len }}".to_owned()),
        ("seq", "{{ seq 9000000000 }}".to_owned()),
        ("printf of a width", "{{ range 100000 }}{{ printf \"%999999d%999999d\" 1 1 }}{{ end }}".to_owned()),
        ("printf of a precision", "{{ range 100000 }}{{ printf \"%.999999f\" 1.5 }}{{ end }}".to_owned()),
        ("doubling by print", "{{ $x := \"xxxxxxxx\" }}{{ range 64 }}{{ $x = print $x $x }}{{ end }}".to_owned()),
        ("doubling by replace", "{{ $x := \"xxxxxxxx\" }}{{ range 64 }}{{ $x = replace \"x\" \"xx\" $x }}{{ end }}".to_owned()),
        ("doubling by list", "{{ $l := list 1 }}{{ range 64 }}{{ $l = concat $l $l }}{{ end }}".to_owned()),
        ("doubling by quote", "{{ $x := \"\\\"\" }}{{ range 64 }}{{ $x = quote $x }}{{ end }}".to_owned()),
        ("doubling by squote and cat", "{{ $x := \"x\" }}{{ range 64 }}{{ $x = cat (squote $x) $x }}{{ end }}".to_owned()),
        ("doubling by html", "{{ $x := \"&\" }}{{ range 64 }}{{ $x = html (print $x $x) }}{{ end }}".to_owned()),
        ("doubling by urlquery", "{{ $x := \"&\" }}{{ range 64 }}{{ $x = urlquery (print $x $x) }}{{ end }}".to_owned()),
        ("doubling by js", "{{ $x := \"<\" }}{{ range 64 }}{{ $x = js (print $x $x) }}{{ end }}".to_owned()),
        ("doubling by toJson", "{{ $x := \"\\\"\" }}{{ range 64 }}{{ $x = toJson (print $x $x) }}{{ end }}".to_owned()),
        ("quote of what must be escaped", "{{ range 100 }}{{ $b := repeat 20000000 \"\\x01\" }}{{ quote $b }}{{ end }}".to_owned()),
        ("toJson of what must be escaped", "{{ range 100 }}{{ repeat 20000000 \"\\x01\" | toJson }}{{ end }}".to_owned()),
        ("toYaml of what must be escaped", "{{ range 100 }}{{ repeat 10000000 \"\\x01\" | toYaml }}{{ end }}".to_owned()),
        ("splitList of characters", format!("{big}{{{{ range 10 }}}}{{{{ splitList \"\" $b | len }}}}{{{{ end }}}}")),
        ("split of characters", format!("{big}{{{{ range 10 }}}}{{{{ split \"\" $b | len }}}}{{{{ end }}}}")),
        ("splitList that is kept", format!("{mid}{{{{ $l := list }}}}{{{{ range 1000 }}}}{{{{ $l = append $l (splitList \"a\" $b) }}}}{{{{ end }}}}")),
        ("regexFindAll of nothing", format!("{big}{{{{ range 10 }}}}{{{{ regexFindAll \"\" $b -1 | len }}}}{{{{ end }}}}")),
        ("regexSplit of nothing", format!("{big}{{{{ range 10 }}}}{{{{ regexSplit \"\" $b -1 | len }}}}{{{{ end }}}}")),
        ("a dictionary of millions", "{{ $d := dict }}{{ range 9000000 }}{{ $_ := set $d (print .) . }}{{ end }}".to_owned()),
        ("dictionaries in a list", "{{ $l := list }}{{ range 3000 }}{{ $l = append $l (dict \"a\" . \"b\" .) }}{{ range 3000 }}{{ $x := dict \"a\" $l }}{{ end }}{{ end }}".to_owned()),
        ("chunk", "{{ range 1000 }}{{ chunk 1 (until 100000) | len }}{{ end }}".to_owned()),
        ("randAlphaNum", "{{ randAlphaNum 2000000000 }}".to_owned()),
        ("randAscii", "{{ randAscii 2000000000 }}".to_owned()),
        ("randBytes", "{{ randBytes 2000000000 }}".to_owned()),
        ("b64enc", "{{ $x := \"x\" }}{{ range 200 }}{{ $x = b64enc $x }}{{ end }}".to_owned()),
        ("b32enc", "{{ $x := \"x\" }}{{ range 200 }}{{ $x = b32enc $x }}{{ end }}".to_owned()),
        ("encryptAES", "{{ $x := \"x\" }}{{ range 200 }}{{ $x = encryptAES \"k\" $x }}{{ end }}".to_owned()),
        ("fromYaml of much", "{{ $y := repeat 1000000 \"- a\\n\" }}{{ range 1000 }}{{ fromYamlArray $y | len }}{{ end }}".to_owned()),
        ("fromJson of much", "{{ $y := print \"[\" (repeat 1000000 \"1,\") \"1]\" }}{{ range 1000 }}{{ fromJsonArray $y | len }}{{ end }}".to_owned()),
        ("text that is kept by variables", "{{ $l := list }}{{ range 1000 }}{{ $l = append $l (repeat 1000000 \"x\") }}{{ end }}".to_owned()),
        ("output", "{{ $x := repeat 1000000 \"x\" }}{{ range 1000 }}{{ $x }}{{ end }}".to_owned()),
        ("tpl of much", "{{ range 1000 }}{{ tpl (repeat 100000 \"{{ . }}\") . }}{{ end }}".to_owned()),
        ("tpl of ever new texts", "{{ range 1000000 }}{{ tpl (print (repeat 10000 \"x\") .) . }}{{ end }}".to_owned()),
    ]
    .iter()
    .map(|(name, text)| spends(&format!("that grows by {name}"), text))
    .collect()
}

/// Templates that take long for their size.
fn slow() -> Vec<Case> {
    let big = "{{ $b := repeat 10000000 \"ab\" }}";
    let loops =
        |body: &str| format!("{big}{{{{ range 1000000 }}}}{{{{ $_ := {body} }}}}{{{{ end }}}}");
    let mut out: Vec<Case> = [
        ("sha1sum", loops("sha1sum $b")),
        ("sha256sum", loops("sha256sum $b")),
        ("sha512sum", loops("sha512sum $b")),
        ("adler32sum", loops("adler32sum $b")),
        ("contains", loops("contains \"c\" $b")),
        ("hasSuffix", loops("hasSuffix $b $b")),
        ("eq", loops("eq $b (print $b)")),
        ("regexMatch", loops("regexMatch \"(a|ab)*c\" $b")),
        ("regexFind", loops("regexFind \"c\" $b")),
        ("atoi", loops("atoi $b")),
        ("int", loops("int $b")),
        ("float64", loops("float64 $b")),
        ("trim", loops("trim $b")),
        ("nospace", loops("nospace $b")),
        ("len of what is printed", loops("len (print $b)")),
        ("toDate", loops("toDate $b $b")),
        ("urlParse", loops("urlParse $b")),
        ("b64dec", loops("b64dec $b")),
        ("fromYaml", loops("fromYaml $b")),
        ("fromToml", loops("fromToml $b")),
        ("fromJson", loops("fromJson $b")),
        ("levels of YAML", "{{ $y := repeat 100000 \"[\" }}{{ range 1000000 }}{{ $_ := fromYaml $y }}{{ end }}".to_owned()),
        ("sortAlpha", "{{ $l := splitList \"\" (repeat 100000 \"ba\") }}{{ range 1000000 }}{{ $_ := sortAlpha $l }}{{ end }}".to_owned()),
        ("uniq", "{{ uniq (until 1000000) | len }}".to_owned()),
        ("without", "{{ $l := until 100000 }}{{ range 1000000 }}{{ $_ := without $l 1 2 3 4 5 }}{{ end }}".to_owned()),
        ("has", "{{ $l := until 100000 }}{{ range 1000000 }}{{ $_ := has -1 $l }}{{ end }}".to_owned()),
        ("keys", "{{ $d := dict }}{{ range 100000 }}{{ $_ := set $d (print .) . }}{{ end }}{{ range 1000000 }}{{ $_ := keys $d }}{{ end }}".to_owned()),
        ("pick and omit", "{{ $d := dict }}{{ range 10000 }}{{ $_ := set $d (print .) . }}{{ end }}{{ range 1000000 }}{{ $_ := omit $d \"x\" }}{{ end }}".to_owned()),
        ("merge", "{{ $d := dict }}{{ range 10000 }}{{ $_ := set $d (print .) . }}{{ end }}{{ range 1000000 }}{{ $_ := merge (dict) $d }}{{ end }}".to_owned()),
        ("shuffle", loops("shuffle $b")),
        ("bcrypt", "{{ range 1000 }}{{ bcrypt \"x\" }}{{ end }}".to_owned()),
        ("htpasswd", "{{ range 1000 }}{{ htpasswd \"x\" \"y\" }}{{ end }}".to_owned()),
        ("derivePassword", "{{ range 1000 }}{{ derivePassword 1 \"long\" \"p\" \"u\" \"s\" }}{{ end }}".to_owned()),
        ("certificates", "{{ $k := genPrivateKey \"ecdsa\" }}{{ range 1000000 }}{{ $_ := genCAWithKey \"a\" 1 $k }}{{ end }}".to_owned()),
        ("P-256 keys", "{{ range 1000000 }}{{ $_ := genPrivateKey \"ecdsa\" }}{{ end }}".to_owned()),
        ("Ed25519 keys", "{{ range 1000000 }}{{ $_ := genPrivateKey \"ed25519\" }}{{ end }}".to_owned()),
    ]
    .iter()
    .map(|(name, text)| spends(&format!("slow by {name}"), text))
    .collect();
    out.push(spends(
        "slow by RSA keys",
        "{{ range 10000 }}{{ genCA \"a\" 1 }}{{ end }}",
    ));
    // Keys of these kinds take seconds each.
    if !cfg!(debug_assertions) {
        out.push(spends(
            "slow by large RSA keys",
            "{{ range 1000 }}{{ genPrivateKey \"rsa\" }}{{ end }}",
        ));
        out.push(spends(
            "slow by DSA keys",
            "{{ range 1000 }}{{ genPrivateKey \"dsa\" }}{{ end }}",
        ));
    }
    out.push(template(
        "with catastrophic expressions",
        answered(&["a: false false"]),
        "a: {{ regexMatch \"^(a+)+$\" (print (repeat 5000 \"a\") \"b\") }} {{ regexMatch \"(a{1000}){1000}\" \"a\" }}",
    ));
    out.push(template(
        "with a version of a million digits",
        refused(&["templates/x.yaml", "too long"]),
        "{{ semver (repeat 1000000 \"1\") }}",
    ));
    out.push(template(
        "with 100,000 constraints",
        refused(&["templates/x.yaml", "too long"]),
        "{{ semverCompare (repeat 100000 \">=1 \") \"1.2.3\" }}",
    ));
    out.push(template(
        "with an expression that is too large",
        refused(&["templates/x.yaml"]),
        "{{ mustRegexMatch \"((((a{1000}){1000}){1000}){1000})\" \"a\" }}",
    ));
    out.push(spends(
        "slow by ever new expressions",
        "{{ range 1000000 }}{{ $_ := regexMatch (printf \"(a{999}){9}%d\" .) \"a\" }}{{ end }}",
    ));
    out
}

/// Small values that are 2^40 times as large when they are written, and values that contain
/// themselves.
fn shared_values() -> Vec<Case> {
    let bomb = "{{ $d := dict \"k\" \"xxxxxxxxxxxxxxxx\" }}{{ range 40 }}{{ $d = dict \"a\" $d \"b\" $d }}{{ end }}";
    let ring = "{{ $d := dict }}{{ $_ := set $d \"self\" $d }}{{ $_ := set $d \"more\" $d }}";
    let calls = [
        "toYaml $d",
        "toYamlPretty $d",
        "toJson $d",
        "toPrettyJson $d",
        "toRawJson $d",
        "toToml $d",
        "deepCopy $d | len",
        "quote $d",
        "squote $d",
        "cat $d",
        "print $d",
        "println $d",
        "printf \"%v\" $d",
        "printf \"%#v\" $d",
        "printf \"%q\" $d",
        "html $d",
        "js $d",
        "urlquery $d",
        "toString $d",
        "join \",\" (list $d $d)",
        "toStrings (list $d $d) | len",
        "sortAlpha (list $d $d)",
        "deepEqual $d (deepCopy $d)",
        "merge (dict) (deepCopy $d) | len",
        "mergeOverwrite (deepCopy $d) $d | len",
        "has $d (list (deepCopy $d))",
        "uniq (list $d (deepCopy $d))",
        "toDecimal $d",
        "dict $d 1",
        "$d",
    ];
    let mut out: Vec<Case> = calls
        .iter()
        .map(|call| {
            spends(
                &format!("with a bomb in {call}"),
                &format!("{bomb}{{{{ {call} }}}}"),
            )
        })
        .collect();
    let end = |call: &&str| {
        template(
            &format!("with a ring in {call}"),
            Want::Ends,
            &format!("{ring}{{{{ {call} }}}}"),
        )
    };
    out.extend(calls.iter().map(end));
    out
}

/// Errors that would be as large as a string that a template has created.
fn messages() -> Vec<Case> {
    let big = "{{ $b := repeat 30000000 \"x\" }}";
    let in_file = || refused(&["templates/x.yaml"]);
    [
        ("fail", "fail $b"),
        ("required", "required $b nil"),
        ("range", "range $b }}{{ end"),
        ("include", "include $b ."),
        ("tpl", "tpl (print $b \"{{\") ."),
        ("mustRegexMatch", "mustRegexMatch (print \"[\" $b) \"a\""),
        ("mustToDate", "mustToDate $b $b"),
        ("semver", "semver $b"),
        ("a number", "index (list 1) (print $b)"),
        ("index", "index (list 1) $b"),
        ("genPrivateKey", "genCAWithKey \"a\" 1 $b"),
    ]
    .iter()
    .map(|(name, call)| {
        template(&format!("with a long message of {name}"), in_file(), &format!("{big}{{{{ {call} }}}}"))
    })
    .chain([template(
        "with messages of 1,000 levels",
        in_file(),
        "{{ define \"a\" }}{{ $t := printf \"{{ include \\\"a\\\" . }}%s\" (repeat 20000 \"x\") }}{{ tpl $t . }}{{ end }}{{ include \"a\" . }}",
    )])
    .collect()
}
