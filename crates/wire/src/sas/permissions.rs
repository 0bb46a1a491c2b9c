//! Sets of permissions and of resource types, one byte each.

use std::ops::BitOr;

/// Declares a set of named flags, each with its letter.
macro_rules! flag_set {
    ($(#[$doc:meta])* $name:ident { $($(#[$flag_doc:meta])* $flag:ident = $letter:literal $bit:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(u8);

        impl $name {
            $($(#[$flag_doc])* pub const $flag: Self = Self(1 << $bit);)*
            /// The set without a flag.
            pub const NONE: Self = Self(0);

            /// The set of the letters in `text`; unknown letters are ignored.
            pub fn parse(text: &str) -> Self {
                text.chars().fold(Self::default(), |set, letter| match letter {
                    $($letter => set | Self::$flag,)*
                    _ => set,
                })
            }

            /// The letters of the set, in the order of its flags.
            pub fn letters(self) -> String {
                let all = [$((Self::$flag, $letter),)*];
                all.iter().filter(|(flag, _)| self.contains(*flag)).map(|(_, letter)| letter).collect()
            }

            /// The flags that are in either set.
            pub const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The flags that are in both sets.
            pub const fn intersection(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }

            /// Every set of flags of this set, itself and the empty one included.
            pub fn subsets(self) -> impl Iterator<Item = Self> {
                (0..=self.0).map(Self).filter(move |subset| self.contains(*subset))
            }

            /// Whether every flag of `other` is in this set.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether any flag of `other` is in this set.
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }
        }

        impl BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }
    };
}

flag_set! {
    /// What a token permits. Tokens for one table know the first four, those for a queue `raup`.
    Permissions {
        READ = 'r' 0,
        ADD = 'a' 1,
        UPDATE = 'u' 2,
        DELETE = 'd' 3,
        WRITE = 'w' 4,
        LIST = 'l' 5,
        CREATE = 'c' 6,
        /// Get and delete messages.
        PROCESS = 'p' 7,
    }
}

flag_set! {
    /// Which types of resources an account SAS is for.
    ResourceTypes {
        SERVICE = 's' 0,
        /// Tables, queues.
        CONTAINER = 'c' 1,
        /// Entities, messages.
        OBJECT = 'o' 2,
    }
}

impl Permissions {
    /// The letters of a token for a table: some of `raud`, in that order.
    pub(super) fn parse_ordered(text: &str) -> Option<Self> {
        let mut allowed = "raud".chars();
        let ordered = text.chars().all(|letter| allowed.any(|next| next == letter));
        ordered.then(|| Self::parse(text))
    }

    /// The letters of a token for a queue: some of `raup`, in any order.
    pub(super) fn parse_of_queue(text: &str) -> Option<Self> {
        text.chars().all(|letter| "raup".contains(letter)).then(|| Self::parse(text))
    }
}
