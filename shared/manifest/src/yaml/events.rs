//! Converts tokens to events, with the grammar of documents, nodes and collections.

use std::borrow::Cow;
use std::collections::HashMap;

use super::error::LocatedError;
use super::node::{Comment, ScalarStyle};
use super::scan::{Mark, Scanner, Token};

#[derive(Debug)]
pub(crate) enum Event<'t> {
    StreamEnd,
    DocumentStart,
    DocumentEnd,
    Alias(&'t str),
    Scalar(Cow<'t, str>, ScalarStyle, Properties<'t>),
    SequenceStart(Properties<'t>),
    MappingStart(Properties<'t>),
    /// The end of a sequence or a mapping.
    End,
}

/// The anchor and tag of a node.
#[derive(Debug, Default)]
pub(crate) struct Properties<'t> {
    pub anchor: Option<&'t str>,
    pub tag: Option<String>,
}

impl Properties<'_> {
    /// Returns the bytes of the tag: a handle of `%TAG` may expand to a long prefix.
    pub(crate) fn tag_bytes(&self) -> usize {
        self.tag.as_ref().map_or(0, String::len)
    }
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// True before the first document, which may begin without `---`.
    DocumentStart(bool),
    DocumentContent,
    DocumentEnd,
    BlockNode,
    BlockSequenceEntry,
    IndentlessSequenceEntry,
    BlockMappingKey,
    BlockMappingValue,
    /// True for the first entry, which has no comma before it.
    FlowSequenceEntry(bool),
    /// A mapping of one pair inside a flow sequence: `[a: b]`.
    FlowPairKey,
    FlowPairValue,
    FlowPairEnd,
    FlowMappingKey(bool),
    FlowMappingValue,
    FlowMappingEmptyValue,
    End,
}

pub(crate) struct Parser<'t> {
    scanner: Scanner<'t>,
    state: State,
    /// The states of the enclosing collections, innermost last.
    states: Vec<State>,
    /// The handles of `%TAG` with their prefixes.
    tags: HashMap<&'t str, String>,
}

type Step<'t> = Result<(Event<'t>, Mark), LocatedError>;

const CORE: &str = "tag:yaml.org,2002:";

impl<'t> Parser<'t> {
    pub(crate) fn new(text: &'t str, keep_comments: bool) -> Self {
        Parser {
            scanner: Scanner::new(text, keep_comments),
            state: State::DocumentStart(true),
            states: Vec::new(),
            tags: HashMap::new(),
        }
    }

    pub(crate) fn into_comments(self) -> Vec<Comment> {
        self.scanner.into_comments()
    }

    /// Returns the next event, with its start.
    pub(crate) fn next(&mut self) -> Step<'t> {
        match self.state {
            State::DocumentStart(first) => self.document_start(first),
            State::DocumentContent => self.document_content(),
            State::DocumentEnd => self.document_end(),
            State::BlockNode => self.node(true, false),
            State::BlockSequenceEntry => self.block_sequence_entry(),
            State::IndentlessSequenceEntry => self.indentless_entry(),
            State::BlockMappingKey => self.block_mapping_key(),
            State::BlockMappingValue => self.block_mapping_value(),
            State::FlowSequenceEntry(first) => self.flow_sequence_entry(first),
            State::FlowPairKey => self.flow_pair_key(),
            State::FlowPairValue => self.flow_pair_value(),
            State::FlowPairEnd => {
                self.state = State::FlowSequenceEntry(false);
                Ok((Event::End, self.scanner.peek()?.1))
            }
            State::FlowMappingKey(first) => self.flow_mapping_key(first),
            State::FlowMappingValue => self.flow_mapping_value(),
            State::FlowMappingEmptyValue => {
                self.state = State::FlowMappingKey(false);
                self.empty_here()
            }
            State::End => Ok((Event::StreamEnd, self.scanner.peek()?.1)),
        }
    }

    /// Takes the next token if it is the given one.
    fn accept(&mut self, token: &Token<'_>) -> Result<Option<Mark>, LocatedError> {
        let (next, mark) = self.scanner.peek()?;
        if next != token {
            return Ok(None);
        }
        self.scanner.take();
        Ok(Some(mark))
    }

    fn next_is(&mut self, tokens: &[Token<'_>]) -> Result<bool, LocatedError> {
        let next = self.scanner.peek()?.0;
        Ok(tokens.iter().any(|token| token == next))
    }

    fn pop(&mut self) {
        self.state = self.states.pop().unwrap_or(State::End);
    }

    fn empty(mark: Mark) -> Step<'t> {
        Ok((
            Event::Scalar(Cow::Borrowed(""), ScalarStyle::Plain, Properties::default()),
            mark,
        ))
    }

    fn empty_here(&mut self) -> Step<'t> {
        Self::empty(self.scanner.peek()?.1)
    }

    fn document_start(&mut self, first: bool) -> Step<'t> {
        while !first && self.accept(&Token::DocumentEnd)?.is_some() {}
        let mark = self.scanner.peek()?.1;
        if self.next_is(&[Token::StreamEnd])? {
            self.state = State::End;
            return Ok((Event::StreamEnd, mark));
        }
        self.tags.clear();
        let directives = self.directives()?;
        if self.accept(&Token::DocumentStart)?.is_some() {
            self.states.push(State::DocumentEnd);
            self.state = State::DocumentContent;
        } else if first && !directives {
            self.states.push(State::DocumentEnd);
            self.state = State::BlockNode;
        } else {
            let at = self.scanner.peek()?.1;
            return Err(at.syntax(
                "expected the start of a document (---) or the indentation of the lines before",
            ));
        }
        Ok((Event::DocumentStart, mark))
    }

    fn directives(&mut self) -> Result<bool, LocatedError> {
        let mut version = false;
        let mut any = false;
        loop {
            match self.scanner.peek()?.0 {
                Token::Version(..) | Token::TagDirective(..) => any = true,
                _ => return Ok(any),
            }
            match self.scanner.take() {
                Some((Token::Version(1, 1), mark)) => {
                    if version {
                        return Err(mark.syntax("a second %YAML directive"));
                    }
                    version = true;
                }
                Some((Token::TagDirective(handle, prefix), mark)) => {
                    if self.tags.insert(handle, prefix).is_some() {
                        return Err(mark.syntax("a second %TAG directive for the same handle"));
                    }
                }
                Some((_, mark)) => return Err(mark.syntax("expected %YAML 1.1")),
                None => return Ok(any),
            }
        }
    }

    fn document_content(&mut self) -> Step<'t> {
        match self.scanner.peek()? {
            (
                Token::Version(..)
                | Token::TagDirective(..)
                | Token::DocumentStart
                | Token::DocumentEnd
                | Token::StreamEnd,
                mark,
            ) => {
                self.pop();
                Self::empty(mark)
            }
            _ => self.node(true, false),
        }
    }

    fn document_end(&mut self) -> Step<'t> {
        let mark = self.scanner.peek()?.1;
        self.accept(&Token::DocumentEnd)?;
        self.state = State::DocumentStart(false);
        Ok((Event::DocumentEnd, mark))
    }

    fn node(&mut self, block: bool, indentless: bool) -> Step<'t> {
        let (token, start) = self.scanner.peek()?;
        if let Token::Alias(name) = *token {
            self.scanner.take();
            self.pop();
            return Ok((Event::Alias(name), start));
        }
        let properties = self.properties()?;
        let (token, mark) = self.scanner.peek()?;
        match token {
            Token::BlockEntry if indentless => {
                self.state = State::IndentlessSequenceEntry;
                return Ok((Event::SequenceStart(properties), start));
            }
            Token::Scalar(..) => {
                self.pop();
                return match self.scanner.take() {
                    Some((Token::Scalar(text, style), _)) => {
                        Ok((Event::Scalar(text, style, properties), start))
                    }
                    _ => Self::empty(start),
                };
            }
            Token::FlowSequenceStart => self.state = State::FlowSequenceEntry(true),
            Token::BlockSequenceStart if block => self.state = State::BlockSequenceEntry,
            Token::FlowMappingStart => self.state = State::FlowMappingKey(true),
            Token::BlockMappingStart if block => self.state = State::BlockMappingKey,
            _ if properties.anchor.is_some() || properties.tag.is_some() => {
                self.pop();
                return Ok((
                    Event::Scalar(Cow::Borrowed(""), ScalarStyle::Plain, properties),
                    start,
                ));
            }
            _ => return Err(mark.syntax("expected a value")),
        }
        let sequence = matches!(token, Token::FlowSequenceStart | Token::BlockSequenceStart);
        self.scanner.take();
        let event = if sequence {
            Event::SequenceStart(properties)
        } else {
            Event::MappingStart(properties)
        };
        Ok((event, start))
    }

    /// Parses an anchor and a tag, in either order.
    fn properties(&mut self) -> Result<Properties<'t>, LocatedError> {
        let mut properties = Properties::default();
        loop {
            match self.scanner.peek()?.0 {
                Token::Anchor(_) if properties.anchor.is_none() => {}
                Token::Tag(..) if properties.tag.is_none() => {}
                _ => return Ok(properties),
            }
            match self.scanner.take() {
                Some((Token::Anchor(name), _)) => properties.anchor = Some(name),
                Some((Token::Tag(handle, suffix), mark)) => {
                    properties.tag = Some(self.resolve_tag(handle, suffix, mark)?)
                }
                _ => return Ok(properties),
            }
        }
    }

    fn resolve_tag(
        &self,
        handle: &str,
        suffix: String,
        mark: Mark,
    ) -> Result<String, LocatedError> {
        if handle.is_empty() {
            return Ok(suffix);
        }
        let declared = self.tags.get(handle).map(String::as_str);
        let prefix = match (declared, handle) {
            (Some(prefix), _) => prefix,
            (None, "!") => "!",
            (None, "!!") => CORE,
            (None, _) => return Err(mark.syntax("a tag handle without a %TAG directive")),
        };
        Ok(format!("{prefix}{suffix}"))
    }

    fn block_sequence_entry(&mut self) -> Step<'t> {
        if let Some(mark) = self.accept(&Token::BlockEntry)? {
            if self.next_is(&[Token::BlockEntry, Token::BlockEnd])? {
                return Self::empty(mark);
            }
            self.states.push(State::BlockSequenceEntry);
            return self.node(true, false);
        }
        self.block_end("expected a list entry (-) or the end of the list")
    }

    fn block_end(&mut self, expected: &str) -> Step<'t> {
        match self.accept(&Token::BlockEnd)? {
            Some(mark) => {
                self.pop();
                Ok((Event::End, mark))
            }
            None => Err(self.scanner.peek()?.1.syntax(expected)),
        }
    }

    /// Parses an entry of a list in the same column as its key.
    fn indentless_entry(&mut self) -> Step<'t> {
        let Some(mark) = self.accept(&Token::BlockEntry)? else {
            self.pop();
            return Ok((Event::End, self.scanner.peek()?.1));
        };
        if self.next_is(&[Token::BlockEntry, Token::Key, Token::Value, Token::BlockEnd])? {
            return Self::empty(mark);
        }
        self.states.push(State::IndentlessSequenceEntry);
        self.node(true, false)
    }

    fn block_mapping_key(&mut self) -> Step<'t> {
        let Some(mark) = self.accept(&Token::Key)? else {
            return self
                .block_end("expected a key or the end of the mapping (check the indentation)");
        };
        if self.next_is(&[Token::Key, Token::Value, Token::BlockEnd])? {
            self.state = State::BlockMappingValue;
            return Self::empty(mark);
        }
        self.states.push(State::BlockMappingValue);
        self.node(true, true)
    }

    fn block_mapping_value(&mut self) -> Step<'t> {
        let Some(mark) = self.accept(&Token::Value)? else {
            self.state = State::BlockMappingKey;
            return self.empty_here();
        };
        if self.next_is(&[Token::Key, Token::Value, Token::BlockEnd])? {
            self.state = State::BlockMappingKey;
            return Self::empty(mark);
        }
        self.states.push(State::BlockMappingKey);
        self.node(true, true)
    }

    fn flow_sequence_entry(&mut self, first: bool) -> Step<'t> {
        if !first
            && !self.next_is(&[Token::FlowSequenceEnd])?
            && self.accept(&Token::FlowEntry)?.is_none()
        {
            return Err(self.scanner.peek()?.1.syntax("expected ',' or ']'"));
        }
        if let Some(mark) = self.accept(&Token::Key)? {
            self.state = State::FlowPairKey;
            return Ok((Event::MappingStart(Properties::default()), mark));
        }
        if let Some(mark) = self.accept(&Token::FlowSequenceEnd)? {
            self.pop();
            return Ok((Event::End, mark));
        }
        self.states.push(State::FlowSequenceEntry(false));
        self.node(false, false)
    }

    fn flow_pair_key(&mut self) -> Step<'t> {
        if self.next_is(&[Token::Value, Token::FlowEntry, Token::FlowSequenceEnd])? {
            // go-yaml also takes this token, so that `[? : a]` and `[?, a]` fail later.
            let mark = self.scanner.peek()?.1;
            self.scanner.take();
            self.state = State::FlowPairValue;
            return Self::empty(mark);
        }
        self.states.push(State::FlowPairValue);
        self.node(false, false)
    }

    fn flow_pair_value(&mut self) -> Step<'t> {
        if self.accept(&Token::Value)?.is_some()
            && !self.next_is(&[Token::FlowEntry, Token::FlowSequenceEnd])?
        {
            self.states.push(State::FlowPairEnd);
            return self.node(false, false);
        }
        self.state = State::FlowPairEnd;
        self.empty_here()
    }

    fn flow_mapping_key(&mut self, first: bool) -> Step<'t> {
        if !first
            && !self.next_is(&[Token::FlowMappingEnd])?
            && self.accept(&Token::FlowEntry)?.is_none()
        {
            return Err(self.scanner.peek()?.1.syntax("expected ',' or '}'"));
        }
        if self.accept(&Token::Key)?.is_some() {
            if self.next_is(&[Token::Value, Token::FlowEntry, Token::FlowMappingEnd])? {
                self.state = State::FlowMappingValue;
                return self.empty_here();
            }
            self.states.push(State::FlowMappingValue);
            return self.node(false, false);
        }
        if let Some(mark) = self.accept(&Token::FlowMappingEnd)? {
            self.pop();
            return Ok((Event::End, mark));
        }
        self.states.push(State::FlowMappingEmptyValue);
        self.node(false, false)
    }

    fn flow_mapping_value(&mut self) -> Step<'t> {
        if self.accept(&Token::Value)?.is_some()
            && !self.next_is(&[Token::FlowEntry, Token::FlowMappingEnd])?
        {
            self.states.push(State::FlowMappingKey(false));
            return self.node(false, false);
        }
        self.state = State::FlowMappingKey(false);
        self.empty_here()
    }
}
