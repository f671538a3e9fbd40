// Dense linear algebra on Float64Array, row by row.
function multiply(a, b, rows, inner, columns) {
  const product = new Float64Array(rows * columns);
  for (let i = 0; i < rows; i++) {
    for (let k = 0; k < inner; k++) {
      const factor = a[i * inner + k];
      if (factor === 0) continue;
      for (let j = 0; j < columns; j++) product[i * columns + j] += factor * b[k * columns + j];
    }
  }
  return product;
}

// Standard normal distribution: a series near 0, a continued fraction in the tails.
function computeNormal(x) {
  const size = Math.abs(x) / Math.SQRT2;
  if (size < 2.5) {
    let term = size;
    let sum = size;
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum) && n < 200; n++) {
      term *= (2 * size * size) / (2 * n + 1);
      sum += term;
    }
    const half = (sum * Math.exp(-size * size)) / Math.sqrt(Math.PI);
    return x < 0 ? 0.5 - half : 0.5 + half;
  }
  let fraction = 0;
  for (let n = 60; n > 0; n--) fraction = n / 2 / (size + fraction);
  const tail = Math.exp(-size * size) / (2 * Math.sqrt(Math.PI) * (size + fraction));
  return x < 0 ? tail : 1 - tail;
}

function invertNormal(share) {
  let x = 0;
  for (let n = 0; n < 60; n++) {
    const step = (share - computeNormal(x)) * Math.sqrt(2 * Math.PI) * Math.exp((x * x) / 2);
    x += step;
    if (Math.abs(step) < 1e-14) break;
  }
  return x;
}

// Lower Cholesky factor of a symmetric positive definite matrix.
function factorise(matrix, size) {
  const root = new Float64Array(size * size);
  for (let i = 0; i < size; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = matrix[i * size + j];
      for (let k = 0; k < j; k++) sum -= root[i * size + k] * root[j * size + k];
      root[i * size + j] = i === j ? Math.sqrt(sum) : sum / root[j * size + j];
    }
  }
  return root;
}

// X with root root' X = B, for B of several columns.
function solveFactored(root, size, right, columns) {
  const solution = Float64Array.from(right);
  for (let c = 0; c < columns; c++) {
    for (let i = 0; i < size; i++) {
      let sum = solution[i * columns + c];
      for (let k = 0; k < i; k++) sum -= root[i * size + k] * solution[k * columns + c];
      solution[i * columns + c] = sum / root[i * size + i];
    }
    for (let i = size - 1; i >= 0; i--) {
      let sum = solution[i * columns + c];
      for (let k = i + 1; k < size; k++) sum -= root[k * size + i] * solution[k * columns + c];
      solution[i * columns + c] = sum / root[i * size + i];
    }
  }
  return solution;
}

// Inverse of a lower triangular matrix.
function invertLower(root, size) {
  const inverse = new Float64Array(size * size);
  for (let c = 0; c < size; c++) {
    for (let i = c; i < size; i++) {
      let sum = i === c ? 1 : 0;
      for (let k = c; k < i; k++) sum -= root[i * size + k] * inverse[k * size + c];
      inverse[i * size + c] = sum / root[i * size + i];
    }
  }
  return inverse;
}

// Eigenvalues and eigenvectors (columns) of a small symmetric matrix, by Jacobi rotations.
function decomposeSymmetric(matrix, size) {
  const a = Float64Array.from(matrix);
  for (let i = 0; i < size; i++) for (let j = 0; j < i; j++) a[j * size + i] = a[i * size + j];
  const vectors = new Float64Array(size * size);
  for (let i = 0; i < size; i++) vectors[i * size + i] = 1;
  for (let sweep = 0; sweep < 60; sweep++) {
    let off = 0;
    let diagonal = 0;
    for (let i = 0; i < size; i++) {
      diagonal += a[i * size + i] ** 2;
      for (let j = 0; j < i; j++) off += a[i * size + j] ** 2;
    }
    if (off <= 1e-34 * diagonal) break;
    for (let p = 0; p < size; p++) for (let q = p + 1; q < size; q++) rotate(a, vectors, size, p, q);
  }
  const values = Float64Array.from({ length: size }, (_, i) => a[i * size + i]);
  return { values, vectors };
}

function rotate(a, vectors, size, p, q) {
  const off = a[p * size + q];
  if (off === 0) return;
  const theta = (a[q * size + q] - a[p * size + p]) / (2 * off);
  const tangent = Math.sign(theta || 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
  const cosine = 1 / Math.sqrt(tangent * tangent + 1);
  const sine = tangent * cosine;
  for (let k = 0; k < size; k++) {
    const [x, y] = [a[k * size + p], a[k * size + q]];
    a[k * size + p] = cosine * x - sine * y;
    a[k * size + q] = sine * x + cosine * y;
  }
  for (let k = 0; k < size; k++) {
    const [x, y] = [a[p * size + k], a[q * size + k]];
    a[p * size + k] = cosine * x - sine * y;
    a[q * size + k] = sine * x + cosine * y;
  }
  for (let k = 0; k < size; k++) {
    const [x, y] = [vectors[k * size + p], vectors[k * size + q]];
    vectors[k * size + p] = cosine * x - sine * y;
    vectors[k * size + q] = sine * x + cosine * y;
  }
}

function expandTriangle(packed, size) {
  const matrix = new Float64Array(size * size);
  for (let i = 0, k = 0; i < size; i++) for (let j = 0; j <= i; j++, k++) matrix[i * size + j] = matrix[j * size + i] = packed[k];
  return matrix;
}

function selectBlock(matrix, size, rows) {
  const block = new Float64Array(rows.length * rows.length);
  rows.forEach((row, i) => rows.forEach((column, j) => { block[i * rows.length + j] = matrix[row * size + column]; }));
  return block;
}
