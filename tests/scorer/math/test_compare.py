r"""Which answers are equal: cases over the answer types of AIME, AMC, MATH, Olympiad, Minerva and College Math.

reports.tsv has pairs of the kinds that bug reports about math graders are about. pairs.tsv has 300 hand-made pairs with
the verdict of a mathematician, and why the scorer's is another where it is. A line of CASES has a gold answer, and
after each == or != a response's answer; `;;` separates gold answers. SURPRISES has further answers that a mathematician
would judge otherwise, with reasons. What is left to math-verify was compared once with 0.9.0 as released, with ANTLR
4.13.2.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rl.scorer.answers import read_answer
from rl.scorer.math.jobs import MathJobs

CASES = r"""
# AIME and AMC: integers, leading zeros, floats as AMC's file has them
204  ==  204.0  ==  204.  !=  205  !=  -204  !=  204.5  ;;  073  ==  73  ;;  73  ==  073
1000  ==  1,000  ==  1{,}000  !=  10,00  ;;  1,234,567  ==  1234567  ;;  -3  ==  −3  ;;  -5  ==  - 5
5  ==  +5  ==  \text{5}  ==  $5$  ==  \(5\)  ==  (5)  !=  5x  !=  ?  !=  5 \text{ or } 6
5  ==  five  ==  \text{Five}  !=  six  !=  \text{The answer is 5}  ;;  0  ==  -0
33  !=  0x21  ;;  123456789  !=  123456788
# Arithmetic that is left to do
5  ==  2+3  ==  x=2+3=5  ==  |{-5}|  !=  5!  ;;  2^{10}  ==  1024  ;;  2^{1009}  !=  2^{1010}
10  ==  \binom{5}{2}  ;;  5050  ==  \sum_{k=1}^{100} k  ;;  \int_0^1 x dx  ==  \frac12
\lfloor n/2 \rfloor  ==  \left\lfloor \frac{n}{2} \right\rfloor  !=  \lceil n/2 \rceil
\lim_{x \to 0} \frac{\sin x}{x}  ==  1
# Fractions and mixed numbers
\frac{1}{2}  ==  1/2  ==  .5  ==  \dfrac{1}{2}  ==  \tfrac12  ==  \frac{2}{4}  ==  \left(\frac{1}{2}\right)
\frac{1}{2}  !=  \frac{2}{1}  !=  \frac{1}{2}x  ;;  -\frac{1}{2}  ==  \frac{-1}{2}  ==  \frac{1}{-2}  ==  -1/2
\frac{1}{3}  ==  0.333333  !=  0.33  !=  0.3333  ;;  \frac{7}{3}  ==  2\frac{1}{3}
2\frac{1}{3}  ==  \frac{7}{3}  !=  \frac{2}{3}  ;;  7/2  ==  3\frac12  ;;  \frac{22}{7}  !=  \pi
# Percentages
50\%  ==  50 \%  ==  0.5  ==  \frac{1}{2}  ==  50  ==  50 percent  ==  50\text{ percent}  !=  5\%  !=  500\%  !=  0.05
50  ==  50\%  ;;  0.6  ==  60\%  ;;  50%  ==  50\%  ;;  12.5\%  ==  \frac18
30  ==  30\,\%  ;;  0.3  ==  30\,\%  !=  3\,\%  ;;  0.05  ==  5~\%
# Units and money
5  ==  5\text{ cm}  ==  5 cm  ==  5\,\mathrm{m/s}  ;;  5\text{ cm}  ==  5  !=  5\text{ m}  ;;  5\mathrm{~m}  ==  5
12  ==  12\text{ cm}^2  ==  12\text{ square units}  !=  13\text{ cm}  ;;  12 \text{ ft}^{2}  ==  12
18  ==  \$18  ;;  \$18  ==  18\text{ dollars}  ;;  70000  ==  \$70{,}000  ==  \$70,000.00  ;;  \$3.50  !=  3.05
5  ==  5\text{ kg}  ==  5\text{ (in 7)}  !=  5\text{7}  !=  5\mathrm{7}  !=  \text{7}5  ;;  57  ==  5\text{7}
12\text{ cm}  ==  12  !=  12\,\mathrm{kg}  !=  5 7  !=  5~7  !=  5\,7  !=  \text{5} 7  !=  cm
9.8\text{ m/s}^2  ==  9.8  ==  9.8 m/s^2  !=  9.8\text{ m/s}  ;;  5\text{ cm}^2  ==  500\text{ mm}^2  !=  50\text{ mm}^2
2\text{ hours } 30\text{ minutes}  ==  2\text{ hours } 30\text{ minutes}  !=  2\text{ hours } 40\text{ minutes}
3\text{ cm}, 4\text{ cm}  ==  4\text{ cm}, 3\text{ cm}  !=  3\text{ cm}, 5\text{ cm}  ;;  7  ==  7\text{ cm$^{2}$}
(3\text{ cm}, 4\text{ cm})  ==  (3,4)  !=  (4,3)
\text{A}, \text{C}  ==  \text{C}, \text{A}  !=  \text{B}, \text{C}
x=2\text{ m}, y=3\text{ m}  !=  x=2\text{ m}, y=5\text{ m}  ;;  12  !=  12\text{ x }13\text{ y }14\text{ z}
5\text{ million dollars}  ==  \$5,000,000
¥500  ==  500  ==  500 yen  ==  500元  ==  \text{¥}500  ==  ￥500  !=  501  !=  ₹500  !=  \$500  ;;  1000  ==  ¥1,000
₹500  ==  500  ==  500 rupees  ==  Rs. 500  ==  \text{Rs. }500  !=  \$500  ;;  Rs. 500  ==  500  ;;  -5  ==  -¥5
# Units of one letter beside others
5 m  ==  5 m  ==  5\text{ m}  ==  500 cm  ==  0.005 km  !=  5 km  !=  5 cm  !=  5 kg  !=  5 g  ;;  5\ m  !=  5\ cm
5m  ==  500cm  !=  5cm  ;;  5 g  ==  0.005 kg  !=  5 kg  ;;  5 h  ==  300 min  !=  5 min  ;;  5 min  !=  5 s  ==  300 s
12h  ==  12h \text{ cm}^3  ;;  2g  ==  2g \text{ m/s}^2  ;;  4s  ==  4s \text{ cm}  ;;  6s^2  ==  6s^2 \text{ cm}^2
2 L  ==  2000\text{ mL}  !=  2\text{ mL}  ;;  5 m^2  ==  50000\text{ cm}^2  !=  5\text{ km}^2  ;;  3mg  !=  3g
5\text{ km}  ==  5{,}000\text{ m}  ==  5,000\text{ m}  !=  5{,}001\text{ m}  ;;  \$1,250  ==  125,000\text{ cents}
£5  ==  5 pounds  ==  5\text{ pounds}  !=  6 pounds  ;;  5\text{ pounds}  ==  £5  ==  80\text{ ounces}
\$0.25  ==  25¢
# Letters at the end are variables
2t  !=  2  ==  t+t  ;;  \frac{1}{3}\pi r^2 h  ==  \frac{\pi r^2 h}{3}  !=  \frac{\pi r^2}{3}  ;;  2ab  ==  2ba  !=  2
a^2+b^2+2ab  ==  (a+b)^2  !=  a^2+b^2+2  ;;  5  ==  5m  ==  5 m  !=  5t  ;;  5 m  ==  5  ;;  5m  !=  5  !=  6m
500 gm  ==  0.5 kg  ==  500  ;;  5 ms  ==  5  ==  0.005\text{ s}  !=  6 ms
# Words that change the value
3 \text{ pm}  ==  3 \text{ p.m.}  ==  3  !=  3 \text{ am}  ;;  12 \text{ p.m.}  !=  12 \text{ a.m.}  !=  12 \text{ AM}
10\% \text{ increase}  ==  10\%  !=  10\% \text{ decrease}  ;;  \$5 \text{ profit}  ==  \$5  !=  \$5 \text{ loss}
100^\circ \text{C}  ==  100^{\circ}\mathrm{C}  ==  100^\circ  !=  100°\mathrm{F}
100^\circ \text{C}  !=  100^\circ \text{F}  ;;  20 \text{ BC}  ==  20 \text{ B.C.}  !=  20 \text{ AD}
40^\circ \text{ N}  ==  40^\circ \text{ north}  ;;  40^\circ \text{ N}  !=  40^\circ \text{ S}
5 \text{ north}  ==  5 \text{ N}  !=  5 \text{ south}  !=  5 \text{ east}
3 \text{ up}  !=  3 \text{ down}  ;;  3 \text{ left}  ==  3 \text{ up}  !=  3 \text{ right}
3 \text{ gain}  !=  3 \text{ loss}  ;;  3 \text{ more}  !=  3 \text{ less}  !=  3 \text{ fewer}
\text{E}, \text{S}  ==  \text{S}, \text{E}  ;;  5 \text{ F}  ==  5\text{ C/V}
5\text{ W}  ==  5\text{ N}\cdot\text{m/s}
3 \text{ pm}  ==  3 PM  ==  3 p.m.  !=  3 am  ;;  6:15 \text{ p.m.}  ==  6:15 PM  ==  6:15PM  !=  6:15 AM
# Thin spaces before units, and units in several parts
17  ==  17\,\text{square units}  ==  17\;\text{people}  ==  17\,\mathrm{N}  ;;  17\,\text{ways}  ==  17  !=  18
12\pi  ==  12\pi\,\text{cubic units}  ;;  2\sqrt5  ==  2\sqrt{5}\,\text{units}  ;;  100\text{ mph}  ==  100\,\text{mph}
12  ==  12\text{ units}^{2}  ==  12\text{ square }\text{units}  ;;  45^\circ  ==  45\,\text{degrees}
5  ==  5\text{ m}/\text{s}  ==  5\text{ N}\cdot\text{m}  !=  5\text{ m}/6\text{ s}
\frac{1}{2}mg  ==  \frac{mg}{2}  !=  \frac{1}{2}  ;;  2m/h  ==  \frac{2m}{h}  !=  2  ;;  3mg  !=  3
5cm  ==  50mm  ==  5
# Relations and lists whose last number math-verify would read
113  !=  \neq 113  !=  > 113  !=  \ge 113  !=  \leq 113  !=  1, 2, \ldots, 113  !=  112 \& 113  !=  x > 113  ==  x = 113
113  !=  \not= 113  !=  \ngtr 113  !=  \gg 113  !=  1, 2, ..., 113
9  !=  >= 9  !=  => 9  !=  n = 1, 2, \ldots, 9  !=  n = 2 \& 9  !=  x \not = 9  !=  \not{=} 9
n=9  !=  > 9  !=  \geq 9  ;;  5  !=  \max = 3 < 5
113\text{ cm}  !=  \geq 113  ;;  (113)  !=  > 113
8  !=  7 | 8  !=  -7 \mid 8  !=  7 \lor 8  !=  x=7 \lor x=8  !=  7 \cup 8  !=  7 & 8  !=  7 ? 8  !=  7 // 8  !=  7 \| 8
8  !=  \frac{1}{2} \lor 8  !=  7 \lor 8 \lor 9  !=  7 \in 8  ==  2x=16 \Rightarrow x=8  ==  3x = 24 \implies x = 8
8  ==  x^2=64 \iff x=8  ==  x \to 8  ;;  3  ==  10 \equiv 3 \pmod{7}  ==  x_1 \equiv 3  ;;  6  ==  |-6|  ==  2|-3|
55  ==  1+2+\cdots+10 = 55  ;;  x=5  ==  x=5 (x>0)  ;;  \sqrt{2}  ==  1.41421356\ldots  ;;  2  !=  > \sqrt[3]{8}
x \geq 5  ==  [5, \infty)  !=  5  ;;  x < 3  ==  (-\infty, 3)  !=  3  ;;  1, 2, \ldots, 9  ==  1, 2, \ldots, 9
# Congruences
n\equiv 3\pmod 4  ==  n\equiv 3\pmod{4}  ==  3  ==  3 \pmod{4}  ==  n\equiv 3 (\bmod 4)  ==  n \equiv 3 \mod 4
n\equiv 3\pmod 4  ==  n \equiv 3 (\text{mod } 4)  ==  n\equiv 3\ (\mathrm{mod}\ 4)  ==  n \equiv 3 (mod 4)
n\equiv 3\pmod 4  !=  n\equiv 1\pmod 4  !=  4  !=  n \equiv 3 \pmod 8  !=  m \equiv 3 \pmod{5}  !=  n\equiv 1
n\equiv 3\pmod{4}  ==  n\equiv 3\pmod 4  !=  n\equiv 3\pmod{8}  !=  n\equiv 1\pmod{4}  !=  4  ==  3
n\equiv 3\pmod{12}  ==  3 \pmod{12}  ==  n \equiv 3 \mod 12  ==  n\equiv 3\pmod 12  !=  12
5  !=  x \equiv 1 \pmod 5  ==  x \equiv 5 \pmod 7  ==  x \equiv 5 \pmod{7}  ==  12 \bmod 7
4  !=  7 \bmod 4  !=  n\equiv 3 (\bmod 4)  !=  7 \mod 4  ;;  3  ==  7 \bmod 4  ==  7 \mod 4  ==  3 \mod 4  !=  8 \mod 4
-1  ==  x \equiv -1 \pmod{4}  ;;  7  !=  2 \bmod 7  ;;  2  ==  2 \bmod 7
x\equiv 1,3\pmod{8}  ==  x \equiv 1 \text{ or } 3 \pmod 8  ==  1,3 \pmod{8}  ==  1,3  !=  x\equiv 1,3\pmod{16}  !=  1,8
x\equiv 1\pmod 4, x\equiv 2\pmod 3  ==  x\equiv 1\pmod{4}, x\equiv 2\pmod{3}  ==  x\equiv 2\pmod 3, x\equiv 1\pmod 4
x\equiv 1\pmod 4, x\equiv 2\pmod 3  !=  x\equiv 2\pmod 4, x\equiv 1\pmod 3
a \pmod n  ==  a \pmod{n}  !=  a \pmod m  !=  n  ;;  2^{10}  ==  1024 \pmod{10000}  ;;  1  ==  2^{10} \equiv 1 \pmod{11}
5 \pmod{7}  ==  5  ;;  5  ==  5 \pmod 7  ==  5 (\text{mod } 7)  ==  5 \text{ (mod 7)}  ==  5 mod 7
2  ==  2^{10} \bmod 7  ==  2^{10} \bmod 7 = 2  !=  2^{11} \bmod 7
# Open intervals and end points
-1<x<1  !=  -1,1  !=  x=-1, x=1  !=  \{-1,1\}  !=  \pm 1  !=  x=\pm 1  ==  (-1,1)  ==  x>-1, x<1
-1<x<1  ==  x > -1 \text{ and } x < 1
3<x<5  !=  3,5  !=  \{3,5\}  !=  3 \text{ or } 5  ==  x\in(3,5)  ==  (3,5)  !=  [3,5]
x \in (3,5)  !=  \{3,5\}  !=  3,5  !=  x=3, x=5  ==  (3,5)  ==  3<x<5  ;;  -a<x<a  !=  -a, a  ==  -a<x<a
3,5  !=  3<x<5  !=  x\in(3,5)  ;;  \{3,5\}  !=  3<x<5  !=  x \in (3,5)  ;;  x=3, x=5  !=  3<x<5
3 \text{ or } 5  !=  3<x<5
3\le x\le 5  !=  3,5  !=  \{3,5\}  ;;  (3,5)  ==  3<x<5  ==  3,5  ==  x \in (3,5)  ==  x=3,y=5
x \in \{3,5\}  ==  3,5  ==  \{3,5\}  !=  3<x<5
x<-1 \text{ or } x>1  !=  -1,1  ==  x<-1, x>1
x \le 3  !=  3, 4  ;;  x \ne 3  !=  3, 4  ;;  P=(3,5)  ==  3,5  ==  (3,5)  !=  (5,3)  ;;  3,5  ==  P=(3,5)
# Values of different variables
a=3, b=5  ==  (3,5)  ==  3,5  ==  b=5, a=3  ==  a=3 \text{ and } b=5  ==  (a,b)=(3,5)  ==  3 \text{ and } 5  !=  (5,3)
a=3, b=5  !=  5,3  !=  a=5, b=3  !=  5  !=  \{5,3\}
x=1,y=2,z=3  ==  (1,2,3)  ==  1,2,3  !=  (3,2,1)  !=  3,2,1  ==  (x,y,z)=(1,2,3)  ==  x=1, y=2, z=3
x=\frac{1}{2}, y=3  ==  (\frac{1}{2},3)  ==  \left(\frac12, 3\right)  ==  (0.5,3)  !=  (3,\frac12)
a=3 \text{ and } b=5  ==  (3,5)  !=  (5,3)
x_1=2, x_2=3  ==  3,2  ;;  x=2, x=3  ==  3, 2
\alpha=30^\circ, \beta=60^\circ  ==  30^\circ, 60^\circ  !=  60^\circ, 30^\circ
b=5, a=3  ==  (3,5)  ==  5, 3  ==  a=3, b=5  ;;  a=3, b=3  ==  (3,3)  !=  4,4
x=30^\circ, y=60^\circ  ==  (30^\circ, 60^\circ)  ==  30, 60
a=3\text{ cm}, b=5\text{ cm}  ==  3,5  !=  5,3  ==  3\text{ cm}, 5\text{ cm}
(3,5)  !=  3 or 5  !=  $x=3$ or $x=5$  !=  3 \text{or} 5  ==  x \in ]3,5[  ==  ]3,5[  ;;  3,5  !=  ]3,5[
3<x<5  ==  ]3,5[  ;;  [3,5]  !=  ]3,5[
(-\infty,-1)\cup(1,\infty)  ==  ]-\infty,-1[ \cup ]1,\infty[  ;;  ]3,5[  ==  (3,5)  ==  3<x<5  ==  ]3,5[  !=  [3,5[
\left]3,5\right[  ==  (3,5)
a=3\,\text{cm}, b=5\,\text{cm}  ==  3, 5  !=  5, 3  ;;  x=3,\ y=5  ==  x=3, y=5  ==  (3,5)  !=  (5,3)  !=  5,3
x=3,\quad y=5  ==  (3,5)  !=  (5,3)
a=3, b=5  !=  a \text{ or } b  !=  (3,5,7)  !=  3  !=  [3,5]  !=  x \in (3,5)  !=  3<x<5
(3,5)  !=  a=5, b=3  ==  a=3, b=5  ;;  f=3, g=4  !=  4, 3  ==  3;4
m=2, n=-1  ==  (2,-1)  !=  (-1,2)  !=  2,-1,0
A=\frac{1}{2}, B=-\frac{1}{2}  ==  \frac{1}{2}, -\frac{1}{2}  !=  -\frac12, \frac12
a=1, b=2  ==  1 \text{ and } 2  ==  $1$ and $2$  ==  $a=1$, $b=2$  ==  a = 1 \text{, } b = 2  ==  1,\,2  ==  1, \; 2
a=1, b=2  ==  1; 2
(-1,1)  ==  |x|<1  ==  -1 < x < 1  ;;  |x|<1  !=  -1,1  ;;  x>3  !=  3,\infty
-1<x<1  !=  x = 1 \text{ or } x = -1  !=  \left\{-1,1\right\}  !=  x \in \{-1,1\}
# Several answers in one
9  !=  5 \\ 9  !=  5 \text{ , } 9  !=  5 \hspace{1cm} 9  !=  5. 9  ==  9\\  ==  9 \hspace{1cm}  ==  9.
5000  ==  5\text{,}000  ;;  5,9  ==  5\text{, }9  !=  9
5,9  ==  5 \\ 9  ==  x=5 \\ x=9  ==  5 \text{ , } 9  ==  5\\9  !=  9  !=  5 \\ 8
\begin{pmatrix} 5 \\ 9 \end{pmatrix}  ==  \begin{pmatrix} 5\\9 \end{pmatrix}  !=  5,9
# Points and alternatives
(3,5)  !=  3\text{ or }5  !=  3 \lor 5  !=  x=3 \text{ or } x=5  ==  3,5
3 \text{ or } 5  !=  (3,5)  ==  \{3,5\}  ==  3,5
# Numbers in a row
12  !=  1 2  !=  5 7  ;;  6  !=  1 2 3  ;;  5 7  ==  5  7  ;;  0  !=  1 000  ;;  1  !=  1 1/2  ;;  12, 13  ==  13, 12
9  !=  4\quad 5  !=  4\qquad 5  !=  4\,\quad .5  !=  4\ldots 5  !=  4 \dots 5  !=  4$ $5  !=  4\, \text{or} \,5
4\, \text{or} \,5  ==  4, 5  ==  5 \text{ or } 4  !=  9  ;;  4, 5  ==  4 \quad\mathrm{and}\quad 5  !=  4 \quad 5
x<3 \quad\text{or}\quad x>5  ==  (-\infty,3)\cup(5,\infty)  ;;  4\quad 5  ==  4 \quad 5
24  ==  2^3 3  ;;  1.5  ==  \frac12 3  ;;  3  ==  \log_2 8  ;;  2.75  ==  2 \frac34
# Degrees
45  ==  45^\circ  ==  45\text{ degrees}  ;;  45^\circ  ==  45  !=  46^\circ  !=  \frac{\pi}{4}
# Decimals and scientific notation
1.6  ==  1.60  ==  1.6000001  !=  1.61  ;;  1.5  !=  1,5  ;;  3.14  !=  \pi  ;;  0.000001  !=  0.000002
4.5\times 10^{33}  ==  4.5 \cdot 10^{33}  ==  45 \times 10^{32}  !=  4.5 \times 10^{34}
3\times 10^{8}  ==  300000000  ==  3\times10^8\text{ m/s}  !=  3\times 10^{-8}  ;;  6.02 \times 10^{23}  ==  6.02E23
5\times 10^{-5}  ==  5e-5  ==  5e-05  !=  5e-6  ;;  5e-05  ==  0.00005  !=  0.0005  ;;  0.2  ==  2e-1  !=  2e-2
2e-1  ==  -1+2e  ==  2e - 1  ==  0.20  !=  2e+1  ;;  -4e-2  ==  -0.04  ;;  12  ==  １２  !=  １３
2.5\times 10^{-3}  ==  0.0025  ;;  2000  ==  2e3  ;;  0  !=  0.00000001  ;;  0.\bar{6}  ==  \frac23  !=  0.6
8200000  ==  8.2\times10^6  ==  8.2 million  !=  8.2000001\times10^6  ;;  8.2\times10^6  ==  8{,}200{,}000
123456789  ==  1.23456789\times10^8  !=  1.23456788\times10^8  ;;  1331  ==  1000(1.1)^3  !=  1000(1.2)^3
\sqrt{2}  ==  2^{0.5}  ==  \sqrt{2.0}  !=  1.41  ;;  410000\text{ km}  ==  4.1\times10^8\text{ m}
110\text{ cents}  ==  \$1.10  !=  \$1.11  ;;  110  ==  100(1.1)  ;;  602000000000000000000000  ==  6.02\times10^{23}
1000000000001  !=  1.0e12  ==  1.000000000001e12  ;;  10^{15}  ==  1.0e15
42  !=  \frac{0.0}{0}  !=  \log_{1.0} 5  !=  \frac{1.0}{0.0}  ;;  1000000000000  !=  1000000000000.5
# Space at the end, and words in \text or not
5  ==  5\\  ==  5~  ==  5\,  ==  5\,\;\\  !=  6\\  ;;  \{1, 2\}  ==  \{2, 1\}\\  ;;  5\\  ==  5
\text{June 20}  ==  June 20  !=  \text{June 21}  !=  June 2  ;;  Set 2  ==  \mathrm{Set 2}  ;;  \text{A}  ==  A
2^{5000}  ==  4^{2500}  !=  2^{5001}  ;;  10^{-7}  ==  \frac{1}{10000000}  !=  0
# Numbers with words in one \text
20  ==  \text{20 minutes}  ==  \text{20 cm}  ==  \textbf{20 minutes}  !=  \text{20 or 30}  !=  \text{20 or more}
20  !=  \text{30 minutes}  !=  \text{20 to 30}  !=  \text{20 and 30}  !=  \text{20 x 20}
0.2  ==  \text{20\%}  ;;  20\%  ==  \text{20\%}  ==  \text{20 percent}  ==  \textbf{20\%}
20  ==  \text{20\%}  ;;  18  ==  \text{18 dollars}
20\text{ minutes}  ==  \text{20 minutes}  !=  \text{20 hours}  ==  \text{1200 seconds}
\text{20 minutes}  ==  20  ==  20 minutes  ==  20\text{ min}
3:30\text{ p.m.}  ==  \text{3:30 p.m.}  !=  \text{3:30 a.m.}  ==  3:30
\text{20 apples}  ==  20 apples  ==  20  !=  21 apples  ;;  20 apples  ==  \text{20 apples}
-3.5  ==  \text{-3.5 cm}  ;;  1000  ==  \text{1,000 people}  ;;  \text{5 million}  ==  5000000  !=  5
# Mixed percentages
33\frac13\%  ==  33\frac{1}{3}\%  ==  \frac13  !=  0.333  !=  0.33  ==  33\frac13  ==  \frac{100}{3}\%
33\frac13\%  ==  33 \frac13 \%  !=  33\%  !=  \frac{1}{300}
\frac12\%  ==  0.005  ==  0.5\%  ==  \frac{1}{2}\%  !=  5  !=  \frac12  !=  50\%
33\frac{1}{3}\%  ==  33\frac13\%  ==  33 \frac{1}{3}\%  ==  33\frac{1}{3}  ==  \frac{100}{3}  ==  \frac{1}{3}
-33\frac{1}{3}\%  ==  -\frac13  !=  \frac13  !=  33\frac13
12\frac12\%  ==  12.5  ==  12.5\%  ==  0.125  ==  \frac18  ==  12\frac{1}{2}  !=  1.25  ;;  12.5  ==  12\frac12\%
0.125  ==  12\frac12\%  ==  12\dfrac{1}{2}\%
# Percent in words
50\text{ percent}  ==  0.5  ==  \frac12  ==  50  ==  50\%  !=  0.05  !=  5000
0.25  ==  25\text{ percent}  ==  25\text{\%}  ==  25 percent  ==  25\%  ==  \text{25 percent}  ==  25\,\text{percent}
0.25  ==  25\mathrm{\%}  !=  25\text{ per}
0.5  !=  0.5\text{ percent}  ;;  10\text{ percent increase}  ==  10\text{ percent increase}  ==  10\% \text{ increase}
# Blanks and fractions of units
5  ==  5~\text{apples}  ==  5~\mathrm{apples}  ==  5~cm  !=  6~\text{apples}
12  ==  12 \frac{\text{km}}{\text{h}}  ==  12\,\frac{\mathrm{m}}{\mathrm{s}}  !=  13 \frac{\text{km}}{\text{h}}
36\text{ km/h}  ==  10\,\frac{\text{m}}{\text{s}}  !=  36\,\frac{\text{m}}{\text{s}}
\frac{\text{A}}{\text{B}}  ==  \frac{\text{A}}{\text{B}}  !=  \frac{\text{B}}{\text{A}}
9.8 \frac{\text{m}}{\text{s}^2}  ==  9.8\text{ m/s}^2  ==  9.8
# Styles
73  ==  \boldsymbol{73}  ==  \bm{73}  ==  \underline{73}  ==  \textcolor{blue}{73}  ==  \color{blue}{73}  ==  \large{73}
73  ==  \mathsf{73}  ==  \textsf{73}  ==  \mathbf{73}  ==  \Large 73  ==  \color{red} 73  ==  {\color{blue} 73}
73  ==  \mathtt{73}  ==  \emph{73}  ==  \texttt{73}  ==  \textit{73}  !=  \boldsymbol{74}  !=  \bm{7}3 + 1
\frac12  ==  \boldsymbol{\frac{1}{2}}  ==  \boldsymbol{\dfrac12}
2^{10}  ==  2^\boldsymbol{10}  ==  2^{\bm{10}}  !=  20  ;;  57  ==  5\mathbf{7}  ;;  \boldsymbol{x}+1  ==  x+1
A  ==  \boldsymbol{A}  ==  \underline{\textbf{A}}  ;;  \text{Yes}  ==  \textsf{Yes}  ==  \underline{\text{Yes}}
\vec{v}  ==  \vec{v}
5  ==  \approx 5  ==  ≈5  !=  \approx 6  ;;  1+2 i  ==  1+2i
# Characters
-8  ==  –8  ==  ‑8  ==  ﹣8  ==  −8  !=  8  ;;  (-\infty,2]  ==  (-∞,2]  ==  (-oo,2]  ==  (-∞, 2]  !=  (-oo,2)
(2,\infty)  ==  (2,oo)  ==  (2,+oo)  ==  (2,∞)
60^\circ  ==  60\degree  ==  60\textdegree  ==  60°  ==  60^\degree  !=  61\degree
5  ==  5€  ==  £5  ==  €5  ==  5 EUR  ==  5\text{ euros}  ==  5\text{€}  ==  5\,€  ==  £5.00
20  ==  20 USD  ==  20\text{ USD}  ==  USD 20  ;;  \$20  ==  20 USD  !=  €20  !=  20 EUR  !=  20\text{ euros}
-5  ==  -€5  ;;  5€  ==  €5  ==  5  !=  £5
(-\infty,2)\cup(3,\infty)  ==  \{x \mid x<2 \text{ or } x>3\}  ==  \{x : x<2 \text{ or } x>3\}
(-\infty,2)\cup(3,\infty)  !=  \{x \mid x\le 2 \text{ or } x>3\}
[-1,4)  ==  \{x: -1\le x<4\}  ==  [-1,4[  ==  \left[-1,4\right[  ==  \{x \in \mathbb{R} \mid -1 \leq x < 4\}
[-1,4)  ==  \left\{x \mid -1 \le x < 4\right\}  !=  \{x \in \mathbb{Z} \mid -1 \leq x < 4\}  !=  ]-1,4[  !=  [-1,4]
[-1,4)  !=  ]-1,4]
(-1,4]  ==  ]-1,4]  ==  \left]-1,4\right]  ;;  (-1,4)  ==  ]-1,4[  ==  \{x | -1<x<4\}
\{x \mid x^2=4\}  ==  \{x \mid x^2=4\}  ;;  \{x : x>3\}  ==  x>3  ==  (3,\infty)  !=  x\ge 3  !=  3
# More of these notations, and what they must not equal
5  !=  \text{5 or 6}  !=  \text{5 or more}  !=  \text{more than 5}  !=  \text{5 to 6}  !=  \text{5 less than 7}
5  !=  \text{5 plus}  ==  \text{5th}
-2  !=  3–5  !=  $3$–$5$  !=  3\%–5\%  !=  3\text{ cm}–5\text{ cm}  !=  3 – 5  ==  –2  ==  – 2  ==  $–2$
(3,-2)  ==  (3,–2)  ==  (3, –2)  ;;  x-3  ==  x–3  ==  x – 3  ;;  \pi-3  ==  \pi – 3  ;;  3-x  ==  3–x  ==  3 – x
10^{-3}  ==  10^{–3}
(-\infty,3)  !=  \{n \in \mathbb{Z} : n<3\}  ==  \{n \in \mathbb{R} : n<3\}  ;;  (1,\infty)  !=  \{x : x>1, x>2\}
(0,1)  !=  \{x \in \mathbb{Q} : 0<x<1\}  !=  \{x \mid 0<x<1, x \in \mathbb{Q}\}
(0,1)  ==  \{x \in \mathbb R: 0 < x < 1\}  ==  \{ x : 0 < x < \frac{2}{2} \}  ==  x \in ]0,1[
(-\infty,-1)\cup(1,\infty)  ==  ]-\infty,-1[ \cup ]1,\infty[  ==  ]-\infty, -1[\,\cup\,]1, +\infty[
(-\infty,-1)\cup(1,\infty)  !=  ]-\infty,-1] \cup [1,\infty[
[1,2]  !=  [1,2)  !=  ]1,2[  ==  [1,2]  ;;  [1,2],[3,4]  ==  [3,4],[1,2]  ;;  (1,2],[3,4)  ==  [3,4),(1,2]
50  ==  50\text{ percent}  !=  \frac{1}{2}  ;;  \frac{1}{2}  ==  50\text{ percent}  ==  50\text{ \%}
33\frac{1}{3}  ==  33\frac{1}{3}\%  ==  33\frac13 \%  ==  33 1/3\%
\frac{1}{3}  ==  33 1/3\%  ==  33\frac{1}{3}\text{ percent}
\frac{2}{0}\%  !=  5  ;;  0.5  !=  \frac12\%  ==  \frac12
2^{10}  ==  {2}^{10}  ;;  x^2  ==  \boldsymbol{x^2}  ==  \bm{x}^{2}  ==  \boldsymbol{x}^{\boldsymbol{2}}  !=  x2
\frac{\sqrt{3}}{2}  ==  \boldsymbol{\frac{\sqrt{3}}{2}}  ==  \color{blue}{\frac{\sqrt{3}}{2}}
\frac{\sqrt{3}}{2}  ==  \color{blue}\frac{\sqrt{3}}{2}
5\text{ cm}  ==  \underline{5\text{ cm}}  ==  \boldsymbol{5}\text{ cm}  !=  \boldsymbol{5}\text{ m}
12\text{ km/h}  ==  12 \frac{\text{km}}{\text{h}}  !=  12 \frac{\text{m}}{\text{s}}
12  ==  12\,\dfrac{\mathrm{km}}{\mathrm{h}}
\$5  !=  5€  !=  £5  ==  5 USD  ==  500\text{ cents}  ;;  5\text{ euros}  ==  €5  ==  5 €  ==  5 EUR  !=  \$5  !=  €6
1000  ==  €1,000  ==  1000€  ;;  -5  ==  -€5  !=  €5
\text{C}  ==  \text{C.}  ==  \textbf{C.}  !=  \text{D.}  ;;  2516_8  ==  (2516)_8  !=  (2516)_9  ;;  f(x)_2  ==  f(x)_2
\text{sans}  ==  \textsf{sans}  ;;  even  ==  \textsf{even}
20 apples  ==  20\text{ apples}  ==  20 apples  !=  20 pears
x \text{ or } y  ==  x or y  ;;  \infty  ==  ∞  ==  oo  ;;  -\infty  ==  -∞  ==  -oo  !=  oo
90^\circ  ==  90\degree  ==  90^{\degree}  ==  90^\degree  ;;  \sin(30\degree)  ==  \sin(30^\circ)
(2,3)  ==  \langle 2,3 \rangle  !=  \langle 3,2 \rangle  !=  \{2,3\}
\begin{pmatrix}2\\3\end{pmatrix}  !=  \langle 2,3 \rangle
1.5  ==  \text{1.5 kg}  ==  \text{1.5kg}  ==  \text{1.5 kg.}  ;;  3 \text{ pm}  ==  \text{3 pm}  !=  \text{3 am}
\text{June 20}  !=  \text{20 June}  ;;  20  !=  \text{June 20}
\frac{1}{2}\%  !=  \frac{1}{2}  ==  0.005  ;;  12\frac{1}{2}  ==  12.5  ==  12.5\%  ==  12\frac{1}{2}\%
7\text{ apples}  ==  \text{7 apples}  ==  7~\text{apples}  ==  7 ~ \text{apples}
# Angle brackets, a letter with a full stop, bases in parentheses, other matrices
(1,2)  ==  \langle 1,2\rangle  ==  \left\langle 1, 2 \right\rangle  !=  \langle 2,1\rangle
10  ==  10 \text{.}  ==  10\text{.}  ;;  \text{(A)}  ==  \text{A.}  ==  A.  ==  \text{A}  !=  \text{B.}
4210_{5}  ==  (4210)_5  ==  (4210)_{5}  ==  4210_5  !=  (4210)_6  !=  (4211)_5
\begin{pmatrix}1\\2\end{pmatrix}  ==  \begin{pmatrix}1\\[6 pt]2\end{pmatrix}
\begin{pmatrix}1\\2\end{pmatrix}  ==  \begin{smallmatrix}1\\2\end{smallmatrix}
\begin{pmatrix}1\\2\end{pmatrix}  ==  \left(\begin{smallmatrix}1\\2\end{smallmatrix}\right)
\begin{pmatrix}1\\2\end{pmatrix}  ==  \begin{Bmatrix}1\\2\end{Bmatrix}  ==  \begin{pmatrix}1\cr2\end{pmatrix}
\begin{pmatrix}1\\2\end{pmatrix}  ==  \begin{pmatrix}1 \cr 2\end{pmatrix}  !=  \begin{Bmatrix}2\\1\end{Bmatrix}
5  !=  5 \pmod 7, 6 \pmod 7  !=  3 \mod 5 \mod 5  !=  7 \pmod 5  !=  \color{red}{6}  !=  \underline{6}5  !=  1 \\ 5
5  !=  1 \\5  !=  \text{1}\\5
5  !=  \textcolor{red}{1}5  !=  \large{1}5 + 1  !=  €1 5  !=  1€5  ==  {5}  ==  \bm 5  ==  {\bf 5}
-8  !=  8–  !=  5–13  ;;  5-13  !=  5–12  ;;  5  !=  ‑5  ;;  -\frac12  ==  –\frac12  ==  –\dfrac{1}{2}
x^{-1}  ==  x^{–1}
100\%  ==  1  ==  100\text{ percent}  ;;  1\%  ==  1  !=  100
\frac{3}{2}\%  ==  1.5\%  ==  1\frac12\%  ==  0.015  ==  1.5
\{1,2\}  !=  \langle 1,2 \rangle  ==  \boldsymbol{\{1,2\}}  ;;  \{3\}  !=  x \in (3,3)
k \pi+\frac{\pi}{4}(k \in \mathbf{Z})  ==  \frac{\pi}{4}+k\pi  ==  n\pi+\frac{\pi}{4}, n \in Z  !=  2k\pi
# Roots, powers, functions
\sqrt{8}  ==  2\sqrt{2}  ==  2^{3/2}  !=  \sqrt{6}  ;;  \frac{1}{\sqrt{2}}  ==  \frac{\sqrt{2}}{2}
\sqrt[3]{8}  ==  2  ;;  \log_{10} 2  ==  \log 2  ;;  \cos \frac{\pi}{3}  ==  \frac12
\frac{4}{3}\pi r^3  ==  \frac{4\pi r^3}{3}  ;;  \infty  ==  +\infty  !=  -\infty  ;;  100\pi  !=  314
\ln 2  !=  \log 2
# Expressions (Olympiad, College Math, Minerva)
$10-4 n$  ==  -4n+10  ==  2(5-2n)  !=  10-4m  ;;  x^2-1  ==  (x-1)(x+1)  !=  (x+1)^2
\frac{x+1}{x-1}  ==  \frac{-x-1}{1-x}  ;;  2\sin x\cos x  ==  \sin 2x  ;;  \frac{n(n-1)}{2}  ==  \binom{n}{2}
\ln |x|+C  ==  \ln|x| + C  !=  \ln x+C  ;;  \arcsin{1.3 \sin{\theta_w}}  ==  \arcsin(1.3\sin\theta_w)
I_0 e^{-kx}  ==  I_0\exp(-kx)  ;;  \frac{V_0}{R}e^{-t/(RC)}  ==  \frac{V_0}{R} e^{-\frac{t}{RC}}
x_{0} \cos (\omega t)+ \dot{x}_{0} \sin (\omega t)  ==  x_0\cos(\omega t)+\dot{x}_0 \sin(\omega t)
\frac{48 i-56}{85}  ==  -\frac{56}{85}+\frac{48}{85}i  ;;  3+4i  ==  4i+3  !=  3-4i  ;;  \frac{m}{n}  !=  \frac{n}{m}
2i  ==  (1+i)^2  !=  (1-i)^2  ;;  -1  ==  i^2  !=  i  ;;  5  ==  |3+4i|  ;;  e^{2\pi i/3}  !=  e^{4\pi i/3}
\frac{-1+i\sqrt{3}}{2}  ==  e^{2\pi i/3}  !=  e^{\pi i/3}  ;;  i\sqrt{3}  ==  \sqrt{-3}  ;;  15  ==  \sum_{i=1}^5 i
# Equations and assignments
5  ==  x=5  ;;  x=5  ==  5  ==  5=x  ==  x\approx 5  !=  y=5  !=  x=6  ;;  x=2  !=  x^2=4
y=2x+3  ==  2x+3  ==  2x-y+3=0  !=  y=3x+2  ;;  2x+3  ==  y=2x+3  ;;  x^2+y^2=1  ==  x^2+y^2-1=0
f(x)=2x  ==  f(x)=x+x  !=  f(x)=3x  ;;  f(x)=0, f(x)=x  ==  f(x)=x, f(x)=0  ;;  x=1,y=2  ==  y=2,x=1  !=  x=2,y=1
f(x)=x^2-4  ==  y=x^2-4  !=  y=x^2+4  !=  g(x)=x^2-4  ;;  y=2x  ==  f(x) = 2x  !=  f(y)=2x  ;;  f^{-1}(x)=x-1  ==  y=x-1
0.3  ==  P(X>2)=0.3  ==  P(-1<X<1) = 0.3  !=  P(X>0.3)  !=  0<x=0.3  ;;  5  ==  \|v\|=5  ==  \varphi(11)=5
P(X>2)=0.3  ==  0.3  ==  P(X>2)=\frac{3}{10}  !=  P(X<2)=0.3  !=  P(X>2)=0.4  !=  2
5  ==  f^{-1}(3)=5  ==  T_4(2)=5  ==  f^{(4)}(0)=5  !=  x^{-1}=5  !=  x^{-1}(x+1)=5  !=  x_1(x_1+2)=5
x+y=1  ==  y=1-x  ==  x+y-1=0  !=  1  ;;  x+y-z+1=0  !=  0  ;;  y^2=4x  !=  4x  ;;  x:y:z=1:2:3  ==  1:2:3
\frac{x^2}{4}+\frac{y^2}{3}=1  ==  3x^2+4y^2=12  !=  1  ;;  m+n=5  ==  5  ;;  5  ==  x+y=5  ;;  |x+y|=5  ==  5
(x-2)^2+(y+1)^2=9  ==  (x-2)^2+(y+1)^2=3^2  !=  9  ;;  r=x^2+y^2  ==  x^2+y^2  ;;  (x,y)=(1,2)  ==  (1,2)
# Intervals and inequalities
(1,2)  ==  \left(1, 2\right)  ==  x\in(1,2)  !=  [1,2]  ;;  [1,2)  ==  [1, 2)  !=  (1,2]  ;;  [-2,2]  !=  [-2,2.5]
x<3  ==  (-\infty,3)  ==  3>x  !=  x\le 3  !=  x>3  ;;  x\geq 1  ==  x\geqslant 1  ==  [1,\infty)
x \neq 0  ==  \{x: x \neq 0\}  ==  \mathbb{R}-\{0\}  ==  \mathbb R \backslash \{0\}  ==  x \in \mathbb{R}, x \neq 0
\{x \mid x \neq 0\}  ==  (-\infty,0)\cup(0,\infty)  !=  x \neq 1  !=  0  ;;  \mathbb{R}  ==  \text{all reals}
\{x : x \neq 2, x \neq 3\}  ==  x \neq 3, x \neq 2  ==  (-\infty,2)\cup(2,3)\cup(3,\infty)  !=  x \neq 2
\mathbb{R}\setminus\{0\}  ==  (-\infty,0)\cup(0,\infty)  ;;  \mathbb{R}  ==  (-\infty,\infty)  ;;  0<x\le 1  ==  (0,1]
x \neq -2, x \neq 3  ==  x \neq 3, x \neq -2  ==  x \neq 3 \text{ and } x \neq -2  !=  x \neq 0, x \neq 1
\mathbb{R}  !=  x \neq 1, x \neq 2  !=  x \ge -2, x \ne 3  ;;  x > 0, x \neq 1  !=  (-\infty,\infty)
[-2,3)\cup(3,\infty)  ==  x \ge -2 \text{ and } x \ne 3  ;;  (1,2)  ==  x > 1 \text{ and } x < 2
x\in(5,\infty)  ==  x>5  ==  (5,\infty)  !=  y>5  !=  x\ge 5  ;;  x\in[2,3)  ==  2\le x<3  !=  2\le x\le 3
[0,\frac{\pi}{2}]  ==  0\le x\le\frac{\pi}{2}  !=  0\le x<\frac{\pi}{2}  ;;  (0.5,\infty)  ==  x>\frac12  !=  x>\frac13
# Sets and lists
\{1,2\}  ==  \{2,1\}  ==  1,2  !=  \{1,2,3\}  !=  \{1,3\}  ;;  \{1,1,2\}  ==  \{1,2\}  ;;  2  !=  1,2
1,2  ==  \{1,2\}  ==  1 \text{ and } 2  !=  2  ;;  \{0\}  ==  0  ;;  0  ==  \{0\}  !=  \emptyset
1,2,2  ==  2,1,2  ==  x=1, x=2, x=2  ==  \{1,2,2\}  ==  2.0, 1 \text{ and } \frac42  !=  1,1,2  !=  1,2
0, 0, \pm 1  ==  1, 0, -1, 0  ==  0, \pm 1, 0  ;;  1,000,000  ==  1000000  ;;  A,A,B  !=  A,B,B
2\pm\sqrt{3}  ==  2+\sqrt{3},2-\sqrt{3}  ;;  \{1,2\} \cup \{3\}  ==  \{1,2,3\}  ;;  \emptyset  ==  \{\}
2,3  ==  x=2\text{ or }x=3  ==  x_1=2, x_2=3  ;;  $x=2$ or $x=3$  ==  x=3,x=2
# Tuples and points
(1,2,3)  ==  (1, 2, 3)  ==  1,2,3  !=  (3,2,1)  ;;  (\frac12,3)  ==  (0.5,3)  ;;  (1,2)  !=  (2,1)
(3,2,1)  !=  1,2,3  ;;  (1,1,2)  ==  1,1,2  !=  1,2,2  !=  1,2,1  ;;  0,0,0  ==  (0,0,0)  ;;  1,1  ==  (1,1)
(r,\theta)=(3,\frac{\pi}{2})  ==  (3,\frac{\pi}{2})  ;;  (x,y)=(4,-2)  ==  x=4,y=-2  ;;  (1,2)  ==  (x,y)=(1,2)
$(45,2),(-10,-9)$  ==  (-10,-9),(45,2)  ==  (45,2) \text{ and } (-10,-9)  !=  (2,45),(-9,-10)
# Matrices and vectors
\begin{pmatrix} \frac12 \\ 2 \end{pmatrix}  ==  \begin{pmatrix} 0.5 \\ 2 \end{pmatrix}
\begin{pmatrix}1\\2\end{pmatrix}  !=  \begin{pmatrix}1&2\end{pmatrix}  !=  \begin{pmatrix}2\\1\end{pmatrix}  !=  (1,2)
# Choices, text, bases
A  ==  (A)  ==  \textbf{(A)}  ==  \mathrm{A}  ==  A.  !=  B  ;;  \text{(A)}  ==  A  ;;  A,C  ==  C,A  !=  A
\text{even}  ==  even  !=  \text{odd}  !=  \text{neve}  ;;  \text{Yes}  ==  yes  ;;  \text{No solution}  ==  no solution
\text{no solution}  ==  \emptyset  !=  0  !=  \text{one solution}  ;;  \text{C,E}  ==  C, E
\text{A, C}  ==  A,C  !=  AC
(-\infty,\infty)  ==  \text{all real numbers}  ;;  \text{Yes}  ==  \text{Yes.}  !=  \text{No.}
02:30  ==  2:30  ==  2:30 \text{ pm}  !=  1:15  !=  2:3  !=  14:30  ;;  2:30 \text{ pm}  !=  1:15
3:4  ==  6:8  ==  12:16  ;;  9:16  ==  18:32  ;;  1:20  ==  2:40
2:30 \text{ p.m.}  ==  2:30 \text{ PM}  !=  1:15 \text{ p.m.}  !=  2:30 \text{ a.m.}  ;;  9:00  ==  09:00  !=  10:00
3:4  ==  \frac{3}{4}  ;;  10:30  ==  10:30  ;;  5:1  !=  1:5  ;;  B  !=  (B) \; 12
\text{Ellipse}  ==  \textbf{ellipse}  ;;  \overline{AB}  !=  AB  ;;  2516_8  ==  2516_8  ;;  1011_2  !=  11
"""

SURPRISES = [
    # An equation is its right side, whatever stands on its left: \\sqrt2=1.414 is 1.414.
    ("7", "7=5", "mismatch", "the right side is the answer"),
    ("5", "7=5=6", "mismatch", "the last side is the answer"),
    ("5", r"7 \Rightarrow 5", "match", "the right side is the answer"),
    ("2516_8", "2516", "match", "a base may be missing"),
]

# math-verify reads no expression in these, so that only their own text (and what it normalises to that) matches them.
UNREADABLE = [r"\frac{1}{", "?"]

RESPONSES = [
    (r"\frac{1}{2}", "We get $x = 0.5$.\n\nAnswer: $0.5$", "match"),
    ("073", "**Answer:** 73.", "match"),
    ("(B)", "ANSWER: B", "match"),
    ("1,2", "Answer: $x=1$ or $x=2$", "match"),
    ("5", r"\boxed{5\ }", "match"),
    ("4", r"First \boxed{4}, no: \boxed{5}", "mismatch"),
]


@pytest.fixture(scope="module")
def jobs() -> MathJobs:
    return MathJobs()


def outcome(jobs: MathJobs, gold: str, pred: str) -> str:
    header, body = jobs.reply({"job": "math", "gold": gold, "pred": pred, "seconds": 60.0}, b"")
    assert header.get("score") == {"match": 1.0, "mismatch": 0.0}.get(header["outcome"])
    assert body == b""
    return header["outcome"]


def cases() -> Iterator[tuple[str, str, str]]:
    """(gold, response, verdict)."""
    for line in CASES.strip().splitlines():
        if not line.startswith("#"):
            for question in line.split("  ;;  "):
                gold, *rest = re.split(r"  (==|!=)  ", question)
                for sign, pred in zip(rest[::2], rest[1::2], strict=True):
                    verdict = {"==": "match", "!=": "mismatch"}[sign]
                    yield gold, rf"Therefore it is $\boxed{{{pred}}}$.", verdict


def table(name: str) -> list[dict[str, str]]:
    with Path(__file__).with_name(name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.mark.parametrize("kind", sorted({pair["kind"] for pair in table("reports.tsv")}))
def test_kinds_of_answers_that_graders_are_known_to_misjudge(jobs: MathJobs, kind: str) -> None:
    expected = {"same": "match", "different": "mismatch"}
    pairs = [pair for pair in table("reports.tsv") if pair["kind"] == kind]
    said = [(pair, outcome(jobs, pair["gold"], pair["answer"])) for pair in pairs]
    assert [(pair["gold"], pair["answer"], found) for pair, found in said if found != expected[pair["verdict"]]] == []


def test_hand_made_pairs_are_judged_as_a_mathematician_would_except_for_named_limits(jobs: MathJobs) -> None:
    pairs = table("pairs.tsv")
    wrong = []
    for pair in pairs:
        said = outcome(jobs, pair["gold"], pair["answer"])
        expected = {"same": "match", "different": "mismatch"}[pair["verdict"]]
        if (said != expected) != bool(pair["limit"]) or said not in ("match", "mismatch"):
            wrong.append((pair["gold"], pair["answer"], said))
    assert len(pairs) == 300 and wrong == []


def test_math_verify_decides_even_where_it_surprises(jobs: MathJobs) -> None:
    judged = [(gold, read_answer(response), verdict) for gold, response, verdict in (*cases(), *RESPONSES)]
    judged += [(gold, pred, verdict) for gold, pred, verdict, _ in SURPRISES]
    judged.append(("5", r"\frac{1}{\sqrt", "mismatch"))
    assert [(gold, pred) for gold, pred, verdict in judged if outcome(jobs, gold, pred) != verdict] == []


def test_a_gold_answer_that_is_not_read_judges_nothing_but_its_own_text(jobs: MathJobs) -> None:
    for gold in UNREADABLE:
        assert outcome(jobs, gold, "77") == "gold_error", gold
        assert outcome(jobs, gold, f" {gold}\n") == "match", gold


def test_an_empty_gold_answer_judges_nothing(jobs: MathJobs) -> None:
    for gold in ("", " ", r"\,", r"\text{ }"):
        assert {outcome(jobs, gold, pred) for pred in ("", r"\,", gold, "5")} == {"gold_error"}, gold


def test_an_answer_that_is_too_long_is_refused_not_cut(jobs: MathJobs) -> None:
    short = MathJobs(max_answer_chars=10)
    job = {"job": "math", "gold": "5", "pred": "0" * 10 + "5", "seconds": 60.0}
    assert short.reply(job, b"")[0] == {
        "outcome": "pred_error",
        "error": "the answer has 11 characters, more than 10",
    }
    assert short.reply(job | {"pred": "0" * 9 + "5"}, b"")[0]["outcome"] == "match"
    assert short.reply(job | {"pred": "5", "gold": "0" * 10 + "5"}, b"")[0]["outcome"] == "gold_error"
    assert outcome(jobs, "5", "0" * 10 + "5") == "match"


def test_a_worker_that_has_grown_ends_after_its_answer() -> None:
    grown = MathJobs(recycle_bytes=-1)
    header, _ = grown.reply({"job": "math", "gold": "5", "pred": "5", "seconds": 60.0}, b"")
    assert header == {"outcome": "match", "score": 1.0, "last": True}
