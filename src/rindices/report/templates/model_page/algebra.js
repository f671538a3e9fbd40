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
