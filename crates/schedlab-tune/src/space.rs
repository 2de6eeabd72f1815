//! What can be chosen: axes with levels, some of which exist only beside a level of another axis.

use schedlab_stats::Random;

/// The level chosen on each axis, by its index. An axis that does not exist at this point has level 0.
pub type Point = Vec<usize>;

#[derive(Clone, Debug, PartialEq)]
pub enum Levels {
    /// Numbers in an order, by where each lies between 0 and 1.
    Ordered(Vec<f64>),
    /// This many words without an order.
    Words(usize),
}

/// The condition under which an axis exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct When {
    pub axis: usize,
    /// The level that the other axis must have.
    pub level: usize,
}

/// One thing that can be chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub name: String,
    /// Its levels; at least one.
    pub levels: Levels,
    /// Where it exists only beside a level of another axis.
    pub when: Option<When>,
}

impl Axis {
    /// An axis of numbers, laid out by their logarithms if `log`.
    #[must_use]
    pub fn ordered(name: &str, values: &[f64], log: bool) -> Self {
        let scaled: Vec<f64> = values.iter().map(|v| if log { v.ln() } else { *v }).collect();
        let low = scaled.iter().copied().fold(f64::INFINITY, f64::min);
        let high = scaled.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let width = if high > low { high - low } else { 1.0 };
        let places = scaled.iter().map(|v| (v - low) / width).collect();
        Self { name: name.to_owned(), levels: Levels::Ordered(places), when: None }
    }

    /// An axis of `count` words, which have no order.
    #[must_use]
    pub fn words(name: &str, count: usize) -> Self {
        Self { name: name.to_owned(), levels: Levels::Words(count), when: None }
    }

    /// The axis, which exists only beside a level of another one.
    #[must_use]
    pub fn when(self, axis: usize, level: usize) -> Self {
        Self { when: Some(When { axis, level }), ..self }
    }

    #[must_use]
    pub fn count(&self) -> usize {
        match &self.levels {
            Levels::Ordered(places) => places.len(),
            Levels::Words(count) => *count,
        }
    }
}

/// All that can be chosen together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Space {
    pub axes: Vec<Axis>,
}

/// Where a point lies on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    At(f64),
    Word(usize),
    /// The axis does not exist there.
    Off,
}

impl Place {
    /// The squared distance: words are all as far from each other as the ends of an order.
    pub(crate) fn apart(self, other: Self) -> f64 {
        match (self, other) {
            (Self::At(a), Self::At(b)) => (a - b) * (a - b),
            (Self::Word(a), Self::Word(b)) if a == b => 0.0,
            (Self::Off, Self::Off) => 0.0,
            _ => 1.0,
        }
    }
}

impl Space {
    /// A space of these axes. The condition of an axis names one before it.
    #[must_use]
    pub fn new(axes: Vec<Axis>) -> Self {
        Self { axes }
    }

    /// How many points there are, those that differ only on an axis that does not exist counted apart.
    #[must_use]
    pub fn size(&self) -> usize {
        self.axes.iter().fold(1, |size, axis| size.saturating_mul(axis.count()))
    }

    #[must_use]
    pub fn exists(&self, axis: usize, point: &[usize]) -> bool {
        match &self.axes[axis].when {
            None => true,
            Some(when) => point[when.axis] == when.level && self.exists(when.axis, point),
        }
    }

    /// The point with level 0 on each axis that does not exist there.
    #[must_use]
    pub fn canonical(&self, mut point: Point) -> Point {
        for axis in 0..self.axes.len() {
            if !self.exists(axis, &point) {
                point[axis] = 0;
            }
        }
        point
    }

    pub(crate) fn places(&self, point: &[usize]) -> Vec<Place> {
        let place = |(index, axis): (usize, &Axis)| match &axis.levels {
            _ if !self.exists(index, point) => Place::Off,
            Levels::Ordered(places) => Place::At(places[point[index]]),
            Levels::Words(_) => Place::Word(point[index]),
        };
        self.axes.iter().enumerate().map(place).collect()
    }

    /// Any point, all combinations of levels equally likely.
    pub(crate) fn any(&self, random: &mut Random) -> Point {
        let point = self.axes.iter().map(|axis| random.below(axis.count())).collect();
        self.canonical(point)
    }

    /// The points in a mixed radix, by number.
    pub(crate) fn numbered(&self, mut number: usize) -> Point {
        let mut point = Vec::with_capacity(self.axes.len());
        for axis in &self.axes {
            point.push(number % axis.count());
            number /= axis.count();
        }
        self.canonical(point)
    }

    /// Points that differ on one axis: all its levels.
    pub(crate) fn beside(&self, point: &[usize]) -> Vec<Point> {
        let mut out = Vec::new();
        for (index, axis) in self.axes.iter().enumerate() {
            for level in 0..axis.count() {
                let mut other = point.to_vec();
                other[index] = level;
                out.push(self.canonical(other));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_exists_only_beside_its_level() {
        let space = Space::new(vec![
            Axis::words("policy", 2),
            Axis::ordered("slice", &[1.0, 10.0, 100.0], true).when(0, 1),
            Axis::words("detail", 2).when(1, 2),
        ]);
        assert_eq!(space.canonical(vec![0, 2, 1]), [0, 0, 0]);
        assert_eq!(space.canonical(vec![1, 2, 1]), [1, 2, 1]);
        assert_eq!(space.places(&[0, 0, 0])[1..], [Place::Off, Place::Off]);
        assert_eq!(space.places(&[1, 1, 0])[1], Place::At(0.5));
        assert_eq!(space.size(), 12);
    }
}
