//! Labels from closed sets, and a value for each.

use std::marker::PhantomData;

/// A label whose values are known when the program is compiled.
pub trait Label: Copy + 'static {
    /// Every value, in the order of [`index`](Self::index).
    const ALL: &'static [Self];

    /// The place in [`ALL`](Self::ALL).
    fn index(self) -> usize;

    /// Its name in reports.
    fn name(self) -> &'static str;
}

/// Declares an enum whose values are the values of a label: `Ok => "ok"`.
#[macro_export]
macro_rules! label {
    ($(#[$meta:meta])* $visibility:vis enum $label:ident { $($(#[$about:meta])* $value:ident => $name:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        $visibility enum $label { $($(#[$about])* $value,)+ }

        impl $crate::Label for $label {
            const ALL: &'static [Self] = &[$(Self::$value,)+];

            fn index(self) -> usize {
                self as usize
            }

            fn name(self) -> &'static str {
                match self { $(Self::$value => $name,)+ }
            }
        }
    };
}

/// One `T` for each value of a label.
#[derive(Debug)]
pub struct PerLabel<L, T> {
    values: Box<[T]>,
    label: PhantomData<fn(L)>,
}

impl<L: Label, T> PerLabel<L, T> {
    pub fn new(make: impl FnMut() -> T) -> Self {
        let values = std::iter::repeat_with(make).take(L::ALL.len()).collect();
        Self { values, label: PhantomData }
    }

    /// What belongs to `label`.
    pub fn of(&self, label: L) -> &T {
        #[expect(clippy::indexing_slicing, reason = "one was made for each value of the label")]
        &self.values[label.index()]
    }

    pub fn iter(&self) -> impl Iterator<Item = (L, &T)> {
        L::ALL.iter().copied().zip(&self.values)
    }
}

impl<L: Label, T: Default> Default for PerLabel<L, T> {
    fn default() -> Self {
        Self::new(T::default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counter;

    label! {
        enum Colour {
            Red => "red",
            Green => "green",
        }
    }

    #[test]
    fn every_value_of_a_label_has_a_place_of_its_own() {
        let counters = PerLabel::<Colour, Counter>::default();
        counters.of(Colour::Green).add(2);
        let values: Vec<_> = counters.iter().map(|(c, n)| (c.name(), n.value())).collect();
        assert_eq!(values, [("red", 0), ("green", 2)]);
        assert!(Colour::ALL.iter().enumerate().all(|(place, colour)| colour.index() == place));
    }
}
