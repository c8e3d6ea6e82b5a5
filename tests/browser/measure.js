// What a reader sees of the open page: sizes and places of the figures and, when asked for, the contrast of all texts.
(withContrast) => {
  const box = (element) => {
    const { left, top, right, bottom } = element.getBoundingClientRect();
    return { left, top, right, bottom };
  };

  const parse = (colour) => {
    const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number);
    return { rgb: [r, g, b], a };
  };
  const over = (upper, alpha, lower) => upper.map((value, i) => alpha * value + (1 - alpha) * lower[i]);
  const luminance = (rgb) =>
    rgb
      .map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
      .reduce((sum, value, i) => sum + value * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };

  const backgrounds = new Map();
  const backgroundOf = (element) => {
    if (!backgrounds.has(element)) {
      const { rgb, a } = parse(getComputedStyle(element).backgroundColor);
      const below = element.parentElement ? backgroundOf(element.parentElement) : [255, 255, 255];
      backgrounds.set(element, over(rgb, a, below));
    }
    return backgrounds.get(element);
  };

  const contains = (shape, x, y) => {
    const { left, top, right, bottom } = box(shape);
    if (x < left || x > right || y < top || y > bottom) return false;
    return shape.isPointInFill(new DOMPoint(x, y).matrixTransform(shape.getScreenCTM().inverse()));
  };

  // The colour behind the middle of a text: in a drawing that of the shapes that were painted there before it.
  const behind = (element) => {
    const drawing = element.closest("svg");
    let colour = backgroundOf(drawing ? drawing.parentElement : element);
    if (!drawing) return colour;
    const { left, top, right, bottom } = box(element);
    for (const shape of drawing.querySelectorAll("path, circle")) {
      const earlier = shape.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING;
      const style = getComputedStyle(shape);
      if (earlier && style.fill !== "none" && !shape.closest("defs")) {
        if (contains(shape, (left + right) / 2, (top + bottom) / 2)) {
          const { rgb, a } = parse(style.fill);
          colour = over(rgb, a * style.opacity * style.fillOpacity, colour);
        }
      }
    }
    return colour;
  };

  const withText = (element) =>
    [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
  const visible = (element) => {
    const { left, top, right, bottom } = box(element);
    return right > left && bottom > top;
  };
  const contrastOf = (element) => {
    const style = getComputedStyle(element);
    const colour = parse(element.closest("svg") ? style.fill : style.color).rgb;
    return { text: element.textContent.trim().slice(0, 60), contrast: contrast(colour, behind(element)) };
  };
  const drawn = (text) => {
    const { a, b } = text.getScreenCTM(); // of the drawing's units to pixels
    const pixels = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(a, b);
    return { text: text.textContent, pixels, ...box(text) };
  };

  const texts = withContrast ? [...document.body.querySelectorAll("*")].filter((e) => withText(e) && visible(e)) : [];
  return {
    pageWidth: document.scrollingElement.scrollWidth,
    background: getComputedStyle(document.body).backgroundColor,
    ink: getComputedStyle(document.body).color,
    texts: texts.map(contrastOf),
    figures: [...document.querySelectorAll("figure")].map((figure) => ({
      caption: figure.querySelector("figcaption")?.textContent ?? "",
      plot: box([...figure.querySelectorAll("svg")].find(visible)),
      texts: [...figure.querySelectorAll("svg text")].filter(visible).map(drawn),
      ...box(figure),
    })),
  };
}
