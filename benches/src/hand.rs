//! Loops that are written by hand for one type, as in a program that uses no datatypes. Each loop knows
//! its type and no other type.

use std::marker::PhantomData;

use bytemuck::Pod;

/// The loops for one type.
pub(crate) trait Loops {
    /// Copies from memory to an image.
    fn pack(&self, memory: &[u8], image: &mut [u8]);
    /// Copies from an image to memory.
    fn unpack(&self, image: &[u8], memory: &mut [u8]);
}

/// Runs `body` compiled for the vector instructions of this machine, as `-march=native` does for a
/// program.
#[inline(always)]
pub(crate) fn natively<R>(body: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,bmi2")]
        fn avx512<R>(body: impl FnOnce() -> R) -> R {
            body()
        }
        #[target_feature(enable = "avx2,bmi2")]
        fn avx2<R>(body: impl FnOnce() -> R) -> R {
            body()
        }
        let has = |wide: bool| {
            let narrow = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2");
            let rest = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq");
            narrow && (!wide || rest)
        };
        if has(true) {
            // SAFETY: `avx512` needs the features of its attribute, and `has(true)` has found all of them.
            return unsafe { avx512(body) };
        }
        if has(false) {
            // SAFETY: `avx2` needs AVX2 and BMI2, and `has(false)` has found both.
            return unsafe { avx2(body) };
        }
    }
    body()
}

/// Consecutive bytes.
pub(crate) struct Contiguous;

impl Loops for Contiguous {
    fn pack(&self, memory: &[u8], image: &mut [u8]) {
        image.copy_from_slice(&memory[..image.len()]);
    }

    fn unpack(&self, image: &[u8], memory: &mut [u8]) {
        memory[..image.len()].copy_from_slice(image);
    }
}

/// Single elements at a stride that is known at compile time.
pub(crate) struct Strided<T, const STRIDE: usize>(PhantomData<T>);

impl<T, const STRIDE: usize> Strided<T, STRIDE> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: Pod, const STRIDE: usize> Loops for Strided<T, STRIDE> {
    fn pack(&self, memory: &[u8], image: &mut [u8]) {
        let (memory, image) = (bytemuck::cast_slice::<_, T>(memory), bytemuck::cast_slice_mut::<_, T>(image));
        natively(|| {
            let (last, all_but_last) = image.split_last_mut().expect("the image is not empty");
            for (to, from) in all_but_last.iter_mut().zip(memory.chunks_exact(STRIDE)) {
                *to = from[0];
            }
            *last = memory[all_but_last.len() * STRIDE];
        });
    }

    fn unpack(&self, image: &[u8], memory: &mut [u8]) {
        let (image, memory) = (bytemuck::cast_slice::<_, T>(image), bytemuck::cast_slice_mut::<_, T>(memory));
        natively(|| {
            let (last, all_but_last) = image.split_last().expect("the image is not empty");
            for (from, to) in all_but_last.iter().zip(memory.chunks_exact_mut(STRIDE)) {
                to[0] = *from;
            }
            memory[all_but_last.len() * STRIDE] = *last;
        });
    }
}

/// Two elements in every `PERIOD` elements, the second `STEP` after the first.
pub(crate) struct Alternating<T, const STEP: usize, const PERIOD: usize>(PhantomData<T>);

impl<T, const STEP: usize, const PERIOD: usize> Alternating<T, STEP, PERIOD> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: Pod, const STEP: usize, const PERIOD: usize> Loops for Alternating<T, STEP, PERIOD> {
    fn pack(&self, memory: &[u8], image: &mut [u8]) {
        let (memory, image) = (bytemuck::cast_slice::<_, T>(memory), bytemuck::cast_slice_mut::<_, T>(image));
        natively(|| {
            let pairs = image.len() / 2;
            let (body, tail) = image.split_at_mut(2 * (pairs - 1));
            for (to, from) in body.chunks_exact_mut(2).zip(memory.chunks_exact(PERIOD)) {
                to[0] = from[0];
                to[1] = from[STEP];
            }
            tail[0] = memory[PERIOD * (pairs - 1)];
            tail[1] = memory[PERIOD * (pairs - 1) + STEP];
        });
    }

    fn unpack(&self, image: &[u8], memory: &mut [u8]) {
        let (image, memory) = (bytemuck::cast_slice::<_, T>(image), bytemuck::cast_slice_mut::<_, T>(memory));
        natively(|| {
            let pairs = image.len() / 2;
            let (body, tail) = image.split_at(2 * (pairs - 1));
            for (from, to) in body.chunks_exact(2).zip(memory.chunks_exact_mut(PERIOD)) {
                to[0] = from[0];
                to[STEP] = from[1];
            }
            memory[PERIOD * (pairs - 1)] = tail[0];
            memory[PERIOD * (pairs - 1) + STEP] = tail[1];
        });
    }
}

/// Four nested loops around a row of consecutive elements. All numbers count elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nest {
    pub(crate) origin: usize,
    /// Outermost first.
    pub(crate) counts: [usize; 4],
    pub(crate) strides: [usize; 4],
    pub(crate) row: usize,
}

impl Nest {
    #[expect(clippy::inline_always, reason = "it must be compiled with its caller, for the machine at hand")]
    #[inline(always)]
    pub(crate) fn for_each_row(&self, mut body: impl FnMut(usize)) {
        let ([c3, c2, c1, c0], [s3, s2, s1, s0]) = (self.counts, self.strides);
        for i3 in 0..c3 {
            for i2 in 0..c2 {
                for i1 in 0..c1 {
                    let base = self.origin + i3 * s3 + i2 * s2 + i1 * s1;
                    for i0 in 0..c0 {
                        body(base + i0 * s0);
                    }
                }
            }
        }
    }
}

/// Nests, one after the other. `ROW` is the length of their rows if it is known at compile time, else 0.
pub(crate) struct Nests<T, const ROW: usize> {
    nests: Vec<Nest>,
    element: PhantomData<T>,
}

impl<T, const ROW: usize> Nests<T, ROW> {
    pub(crate) fn new(nests: Vec<Nest>) -> Self {
        assert!(nests.iter().all(|nest| ROW == 0 || nest.row == ROW));
        Self { nests, element: PhantomData }
    }
}

impl<T: Pod, const ROW: usize> Loops for Nests<T, ROW> {
    fn pack(&self, memory: &[u8], image: &mut [u8]) {
        let (memory, image) = (bytemuck::cast_slice::<_, T>(memory), bytemuck::cast_slice_mut::<_, T>(image));
        natively(|| {
            let mut done = 0;
            for nest in &self.nests {
                let row = if ROW == 0 { nest.row } else { ROW };
                nest.for_each_row(|at| {
                    image[done..done + row].copy_from_slice(&memory[at..at + row]);
                    done += row;
                });
            }
        });
    }

    fn unpack(&self, image: &[u8], memory: &mut [u8]) {
        let (image, memory) = (bytemuck::cast_slice::<_, T>(image), bytemuck::cast_slice_mut::<_, T>(memory));
        natively(|| {
            let mut done = 0;
            for nest in &self.nests {
                let row = if ROW == 0 { nest.row } else { ROW };
                nest.for_each_row(|at| {
                    memory[at..at + row].copy_from_slice(&image[done..done + row]);
                    done += row;
                });
            }
        });
    }
}

/// `BLOCK` elements at each place of a list. Places count elements from the origin.
pub(crate) struct Listed<T, const BLOCK: usize> {
    pub(crate) origin: usize,
    pub(crate) places: Vec<u32>,
    element: PhantomData<T>,
}

impl<T, const BLOCK: usize> Listed<T, BLOCK> {
    pub(crate) fn new(origin: usize, places: &[i64]) -> Self {
        let places = places.iter().map(|at| u32::try_from(*at).expect("the places fit in 32 bits")).collect();
        Self { origin, places, element: PhantomData }
    }
}

impl<T: Pod, const BLOCK: usize> Loops for Listed<T, BLOCK> {
    fn pack(&self, memory: &[u8], image: &mut [u8]) {
        let memory = &bytemuck::cast_slice::<_, T>(memory)[self.origin..];
        let image = bytemuck::cast_slice_mut::<_, T>(image);
        natively(|| {
            for (to, at) in image.chunks_exact_mut(BLOCK).zip(&self.places) {
                to.copy_from_slice(&memory[*at as usize..][..BLOCK]);
            }
        });
    }

    fn unpack(&self, image: &[u8], memory: &mut [u8]) {
        let image = bytemuck::cast_slice::<_, T>(image);
        let memory = &mut bytemuck::cast_slice_mut::<_, T>(memory)[self.origin..];
        natively(|| {
            for (from, at) in image.chunks_exact(BLOCK).zip(&self.places) {
                memory[*at as usize..][..BLOCK].copy_from_slice(from);
            }
        });
    }
}

/// Loops that run one after the other, each with the number of bytes of the image that it fills.
pub(crate) struct Sequence(pub(crate) Vec<(usize, Box<dyn Loops>)>);

impl Loops for Sequence {
    fn pack(&self, memory: &[u8], image: &mut [u8]) {
        let mut rest = image;
        for (bytes, part) in &self.0 {
            let (own, others) = rest.split_at_mut(*bytes);
            part.pack(memory, own);
            rest = others;
        }
    }

    fn unpack(&self, image: &[u8], memory: &mut [u8]) {
        let mut rest = image;
        for (bytes, part) in &self.0 {
            let (own, others) = rest.split_at(*bytes);
            part.unpack(own, memory);
            rest = others;
        }
    }
}
