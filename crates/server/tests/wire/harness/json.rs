//! JSON as the judge sees it: order, spelling of numbers and all. Written independently of the
//! server's own reader, so that a mistake there cannot hide.

/// A JSON value. Members keep their order, numbers their spelling.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Boolean(bool),
    Number(String),
    String(String),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Json {
    /// Parses a whole text; `None` when it is not JSON.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parser = Parser { rest: text };
        let value = parser.value()?;
        parser.space();
        parser.rest.is_empty().then_some(value)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => {
                members.iter().find(|(known, _)| known == name).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    fn eat(&mut self, token: &str) -> Option<()> {
        self.space();
        self.rest = self.rest.strip_prefix(token)?;
        Some(())
    }

    fn value(&mut self) -> Option<Json> {
        self.space();
        match self.rest.chars().next()? {
            '{' => self.object(),
            '[' => self.array(),
            '"' => self.string().map(Json::String),
            't' => self.eat("true").map(|()| Json::Boolean(true)),
            'f' => self.eat("false").map(|()| Json::Boolean(false)),
            'n' => self.eat("null").map(|()| Json::Null),
            _ => self.number(),
        }
    }

    fn object(&mut self) -> Option<Json> {
        self.eat("{")?;
        let mut members = Vec::new();
        if self.eat("}").is_some() {
            return Some(Json::Object(members));
        }
        loop {
            self.space();
            let name = self.string()?;
            self.eat(":")?;
            members.push((name, self.value()?));
            if self.eat(",").is_none() {
                return self.eat("}").map(|()| Json::Object(members));
            }
        }
    }

    fn array(&mut self) -> Option<Json> {
        self.eat("[")?;
        let mut items = Vec::new();
        if self.eat("]").is_some() {
            return Some(Json::Array(items));
        }
        loop {
            items.push(self.value()?);
            if self.eat(",").is_none() {
                return self.eat("]").map(|()| Json::Array(items));
            }
        }
    }

    fn number(&mut self) -> Option<Json> {
        let is_part = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        number.parse::<f64>().ok()?;
        self.rest = rest;
        Some(Json::Number(number.to_owned()))
    }

    fn string(&mut self) -> Option<String> {
        self.rest = self.rest.strip_prefix('"')?;
        let mut units = Vec::new();
        loop {
            let c = self.take()?;
            match c {
                '"' => return String::from_utf16(&units).ok(),
                '\\' => units.push(self.escape()?),
                c if c < ' ' => return None,
                c => units.extend(c.encode_utf16(&mut [0; 2]).iter()),
            }
        }
    }

    /// The code unit that an escape stands for.
    fn escape(&mut self) -> Option<u16> {
        let unit = match self.take()? {
            'u' => {
                let (hex, rest) = self.rest.split_at_checked(4)?;
                self.rest = rest;
                return u16::from_str_radix(hex, 16).ok();
            }
            'b' => '\u{8}',
            'f' => '\u{C}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            c @ ('"' | '\\' | '/') => c,
            _ => return None,
        };
        Some(unit as u16)
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }
}
