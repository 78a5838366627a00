//! Expressions of templates, by the type of their results. In a pattern, `%t` is replaced by a
//! string, `%n` by a number, `%i` by a small one, `%b` by a boolean, `%l` by a list, `%m` by a map,
//! `%a` by anything.

use super::{fill, values};
use driftless_harness::random::Random;

const TEXT: &[&str] = &[
    "upper %t",
    "lower %t",
    "title %t",
    "untitle %t",
    "trim %t",
    "quote %a",
    "squote %a",
    "snakecase %t",
    "camelcase %t",
    "kebabcase %t",
    "swapcase %t",
    "initials %t",
    "nospace %t",
    "b64enc %t",
    "b64dec (b64enc %t)",
    "b32enc %t",
    "b32dec (b32enc %t)",
    "sha1sum %t",
    "sha256sum %t",
    "sha512sum %t",
    "adler32sum %t",
    "trunc %i %t",
    "abbrev (int %n) %t",
    "abbrevboth %i (int %n) %t",
    "substr 0 %i (printf \"%%s-----\" %t)",
    "replace %t %t %t",
    "trimPrefix %t %t",
    "trimSuffix %t %t",
    "trimAll %t %t",
    "repeat %i %t",
    "indent %i %t",
    "nindent %i %t",
    "wrap (int %n) %t",
    "wrapWith (int %n) \"|\" %t",
    "cat %a %t",
    "plural %t %t (int %n)",
    "join %t %l",
    "regexReplaceAll \"[aeiou]+(x)?\" %t \"<$1>\"",
    "regexFind \"[a-z]+\" %t",
    "regexReplaceAllLiteral \"\\\\d\" %t %t",
    "regexQuoteMeta %t",
    "urlquery %t",
    "html %t",
    "js %t",
    "printf \"%%v-%%s\" %a %t",
    "printf \"%%5.2f|%%d\" %f %n",
    "printf \"%%q %%x\" %t %t",
    "printf \"%%T\" %a",
    "toString %a",
    "toYaml %a",
    "toJson %a",
    "toPrettyJson %a",
    "toRawJson %a",
    "toToml %m",
    "mustToJson %m",
    "mustToJson %a",
    "base %t",
    "dir %t",
    "ext %t",
    "clean %t",
    "kindOf %a",
    "typeOf %a",
    "default %t %t",
    "default %t %t",
    "coalesce %a %t",
    "ternary %t %t (not (not %b))",
    "required \"needed\" (default \"r\" %t)",
    "print %a %t",
    "println %t",
    "first (splitList \"-\" %t)",
    "index (splitList \".\" %t) 0",
    "seq %i %i",
    "toYaml %m",
    "duration %n",
    "durationRound (printf \"%%ds\" %n)",
    "date \"2006-01-02T15:04:05\" (toDate \"2006-01-02\" \"2024-02-29\")",
    "dateInZone \"Mon Jan _2 15:04 MST\" (toDate \"2006-01-02\" \"2023-12-31\") \"UTC\"",
    "htmlDate (toDate \"2006-01-02\" \"2020-05-06\")",
    "unixEpoch (toDate \"2006-01-02\" \"2021-01-01\")",
    "urlJoin (urlParse \"https://u:p@h:80/p?q=1#f\")",
    "get (urlParse (urlquery %t)) \"path\"",
    "(semver \"1.2.3-rc.1+b\").Prerelease",
    "(semver \"1.2.3\").Original",
    "dig \"q\" \"y\" \"none\" (deepCopy (dict \"x\" %m))",
    "osBase %t",
    "shuffle \"\"",
    "regexFindAll \"[a-z]\" %t %i | join \"\"",
    "regexSplit \"[-.]\" %t %i | join \"_\"",
    "toStrings %l | join \"+\"",
    "tpl %p $",
    "include \"shared\" $",
    "include \"shared\" $ | indent %i",
    "(first %l)",
    "last %l | toString",
    "sortAlpha %l | join \",\"",
    "$.Files.Get \"files/one.txt\"",
    "$.Files.Get \"none\"",
    "$.Files.Lines \"files/two.conf\" | toJson",
    "($.Files.Glob \"files/*\").AsConfig",
    "($.Files.Glob \"files/{one,two}.*\").AsSecrets",
    "($.Files.Glob \"**.txt\").AsConfig",
    "$.Files.AsConfig",
    "$.Files.AsSecrets",
    "$.Files.GetBytes \"files/one.txt\" | toString",
];
const NUMBER: &[&str] = &[
    "add %n %n",
    "sub %n %i",
    "mul %n %i",
    "div %n 3",
    "mod %n 7",
    "max %n %n %i",
    "min %n %n",
    "len %l",
    "len %m",
    "len %t",
    "int %a",
    "int64 %a",
    "add1 %n",
    "floor %f | int",
    "ceil %f | int",
    "round %f 1 | int",
    "atoi %t",
    "toDecimal \"0755\"",
    "biggest %n %i",
    "float64 %t | int64",
    "sub (len %l) 1",
    "default %i %n",
];
const FLOAT: &[&str] = &[
    "addf %f %n",
    "subf %f 1.5",
    "mulf %f %f",
    "divf %f 2",
    "maxf %f %n",
    "minf %f %f",
    "floor %f",
    "ceil %f",
    "round %f %i",
    "float64 %a",
    "add1f %f",
];
const LIST: &[&str] = &[
    "list %a %a",
    "list",
    "rest %l",
    "initial %l",
    "append %l %a",
    "prepend %l %a",
    "concat %l %l",
    "uniq %l",
    "without %l %a",
    "compact %l",
    "reverse %l",
    "slice %l 0 1",
    "sortAlpha %l",
    "until %i",
    "untilStep %i %i 2",
    "keys %m | sortAlpha",
    "splitList %t %t",
    "pluck \"x\" %m %m",
    "tuple %a %t",
    "chunk 2 %l",
    "fromYamlArray (toYaml %l)",
    "fromJsonArray (toJson %l)",
    "regexFindAll \".\" %t -1",
    "mustUniq %l",
    "default %l %l",
    "values (dict \"k\" %a)",
    "toStrings %l",
];
const TABLE: &[&str] = &[
    "dict %t %a",
    "dict",
    "dict \"x\" %a \"y\" %t",
    "pick %m \"x\" \"a\"",
    "omit %m \"x\" \"name\"",
    "merge (dict) (deepCopy %m) (deepCopy %m)",
    "merge (deepCopy %m) (deepCopy %m)",
    "mergeOverwrite (deepCopy %m) (deepCopy %m)",
    "mustMergeOverwrite (dict \"x\" 1) (deepCopy %m)",
    "deepCopy (default (dict) %m)",
    "fromYaml (toYaml %m)",
    "fromJson (toJson %m)",
    "set (deepCopy %m) %t %a",
    "unset (deepCopy %m) \"x\"",
    "default (dict \"k\" 1) %m",
    "omit (fromToml (toToml %m)) \"Error\"",
    "fromYaml %t",
    "fromJson %t",
];
const TRUTH: &[&str] = &[
    "and %a %b",
    "or %b %a",
    "not %a",
    "eq (int %n) (int %n)",
    "eq %t %t",
    "ne %t %t",
    "lt (int64 %n) (int64 %n)",
    "ge %t %t",
    "empty %a",
    "hasKey %m %t",
    "has %a %l",
    "contains %t %t",
    "hasPrefix %t %t",
    "hasSuffix %t %t",
    "kindIs \"map\" %a",
    "typeIs \"string\" %a",
    "deepEqual %a %a",
    "regexMatch \"^[a-z]+$\" %t",
    "semverCompare \">=1.2.0-0\" \"1.2.3\"",
    "semverCompare \"^1.30-0\" $.Capabilities.KubeVersion.Version",
    "$.Capabilities.APIVersions.Has \"apps/v1\"",
    "$.Capabilities.APIVersions.Has %t",
    "all %a %a",
    "any %a %a",
    "isAbs %t",
    "$.Release.IsInstall",
    "kindIs \"slice\" %a",
    "eq (toString %a) (toString %a)",
    "gt (float64 %f) (float64 %n)",
];
const FILTERS: &[&str] = &[
    "quote",
    "squote",
    "toString",
    "toString | upper",
    "toString | trunc 5",
    "default \"d\"",
    "toJson",
    "toString | b64enc",
    "toString | indent 2",
    "toString | trimSuffix \"-\"",
    "toString | replace \"a\" \"b\"",
    "print",
    "toJson | len",
    "empty",
    "toYaml",
    "kindOf",
];
const TEMPLATES: &[&str] = &[
    "\"{{ .Chart.Name }}-{{ .Release.Name }}\"",
    "\"{{ .Values.name | upper }}\"",
    "`{{ include \"shared\" . }}`",
    "`{{ range $i, $e := list 1 2 }}{{ $i }}={{ $e }},{{ end }}`",
    "`{{ define \"inner\" }}in{{ end }}{{ template \"inner\" }}`",
    "`{{ tpl \"{{ .Release.Namespace }}\" . }}`",
    "(toYaml $.Values.labels)",
    "(toString $.Values.note)",
    "`{{ if .Values.on }}yes{{ else }}no{{ end }}`",
    "\"{{ .Template.Name }}\"",
];

/// The types of expressions.
const KNOWN: [char; 6] = ['t', 'n', 'f', 'l', 'm', 'b'];

/// A generator of random expressions.
pub struct Expressions<'r> {
    pub random: &'r mut Random,
    /// The variables in scope, each with its type.
    pub variables: Vec<(String, char)>,
}

impl Expressions<'_> {
    /// Returns an expression of this type with at most `depth` levels, without braces around it.
    pub fn of(&mut self, kind: char, depth: usize) -> String {
        let made = self.plain(kind, depth);
        if self.random.percent(12) && "ta".contains(kind) {
            return format!("{made} | {}", self.random.pick(FILTERS));
        }
        made
    }

    fn plain(&mut self, kind: char, depth: usize) -> String {
        // Sometimes, a value of the wrong type.
        let kind = if self.random.below(1_500) == 0 {
            'a'
        } else {
            kind
        };
        if depth == 0 || kind == 'i' || self.random.percent(25) {
            return self.atom(kind);
        }
        let patterns = match kind {
            't' => TEXT,
            'n' => NUMBER,
            'f' => FLOAT,
            'l' => LIST,
            'm' => TABLE,
            'b' => TRUTH,
            _ => {
                let kind = self.random.pick(&KNOWN);
                return self.plain(kind, depth);
            }
        };
        let pattern = self.random.pick(patterns);
        fill(pattern, |part| match part {
            "%" => "%".to_owned(),
            "p" => self.random.pick(TEMPLATES).to_owned(),
            part => {
                let kind = part.chars().next().unwrap_or('a');
                let inner = self.plain(kind, depth - 1);
                match inner.contains(' ') && !inner.starts_with(['"', '`', '(']) {
                    true => format!("({inner})"),
                    false => inner,
                }
            }
        })
    }

    fn atom(&mut self, kind: char) -> String {
        let fitting: Vec<&str> = self
            .variables
            .iter()
            .filter(|(_, of)| *of == kind)
            .map(|(name, _)| name.as_str())
            .collect();
        if !fitting.is_empty() && self.random.percent(40) {
            return self.random.pick(&fitting).to_owned();
        }
        let value = |random: &mut Random, keys: &[&str], default: &str| match random.below(200) > 0
        {
            true => format!("($.Values.{} | default {default})", random.pick(keys)),
            false => format!("$.Values.{}", random.pick(keys)),
        };
        let random = &mut *self.random;
        match kind {
            't' => match random.below(3) {
                0 => random
                    .pick(&[
                        "\"str\"",
                        "\"\"",
                        "`raw {x}`",
                        "\"é ☃\"",
                        "\"a-b.c\"",
                        "\"x\\ty\"",
                        "\"one two\"",
                        "\"1.2.3\"",
                        "\"k: [v]\"",
                    ])
                    .to_owned(),
                1 => random
                    .pick(
                        &[
                            "$.Chart.Name",
                            "$.Chart.Version",
                            "$.Release.Name",
                            "$.Release.Namespace",
                            "$.Release.Service",
                            "$.Capabilities.KubeVersion.Version",
                            "$.Capabilities.KubeVersion.Minor",
                            "$.Chart.AppVersion",
                            "$.Chart.Type",
                            "$.Capabilities.HelmVersion.Version",
                        ][..9],
                    )
                    .to_owned(),
                _ => value(random, &values::TEXTS, "\"dflt\" | toString"),
            },
            'n' => match random.below(2) {
                0 => random
                    .pick(&["1", "0", "3", "42", "8080", "-2", "0x10", "1000000"])
                    .to_owned(),
                _ => value(random, &values::NUMBERS, "7 | int"),
            },
            'i' => random.pick(&["0", "1", "2", "3", "5"]).to_owned(),
            'f' => random
                .pick(&[
                    "1.5",
                    "2.0",
                    "0.1",
                    "-3.75",
                    "1e3",
                    "100",
                    "1e21",
                    "$.Values.port | float64",
                    "1234567.891",
                ])
                .replace("$.Values.port | float64", "(float64 $.Values.port)"),
            'l' => match random.below(3) {
                0 => random
                    .pick(&[
                        "(list 1 2 3)",
                        "(list \"b\" \"a\" \"b\")",
                        "(list)",
                        "(list nil \"\" 0)",
                        "(until 3)",
                    ])
                    .to_owned(),
                _ => value(random, &values::LISTS, "(list \"d\")"),
            },
            'm' => match random.below(3) {
                0 => random
                    .pick(&[
                        "(dict \"x\" 1)",
                        "(dict \"x\" \"v\" \"b\" (dict \"c\" nil))",
                        "(dict)",
                        "(dict \"k\" (list 1 2))",
                    ])
                    .to_owned(),
                1 => random
                    .pick(
                        &[
                            "($.Values.global | default (dict))",
                            "$.Values",
                            "$.Chart.Annotations | toJson | fromJson",
                        ][..2],
                    )
                    .to_owned(),
                _ => value(random, &values::TABLES, "(dict \"x\" \"dx\")"),
            },
            'b' => match random.below(2) {
                0 => random
                    .pick(&["true", "false", "$.Release.IsUpgrade", "$.Chart.IsRoot"])
                    .to_owned(),
                _ => format!("$.Values.{}", random.pick(&values::SWITCHES)),
            },
            _ => match random.below(4) {
                0 => random
                    .pick(&[
                        "nil",
                        "\"\"",
                        "0",
                        "$.Chart.Annotations",
                        "$.Chart.Maintainers",
                        "$.Chart.Dependencies",
                        "$.Values.c",
                        "$.Values.tags",
                        "(list nil)",
                    ])
                    .to_owned(),
                1 => format!("$.Values.{}", random.pick(&values::ANYTHING)),
                _ => {
                    let kind = random.pick(&KNOWN);
                    self.atom(kind)
                }
            },
        }
    }
}
