# R-indices in R: `rindices model export model.safetensors --onnx model.onnx`, then
#   install.packages("reticulate"); reticulate::py_install(c("onnxruntime", "numpy"))
library(reticulate)
ort <- import("onnxruntime")
np <- import("numpy", convert = FALSE)

r_indices <- function(path, people) { # people: a data.frame with the columns that the model names
  session <- ort$InferenceSession(path)
  feeds <- list()
  for (input in session$get_inputs()) {
    column <- people[[input$name]]
    if (is.null(column)) stop("the column ", input$name, " is missing")
    kind <- if (input$type == "tensor(string)") "object" else "float64"
    values <- if (kind == "object") as.list(as.character(column)) else as.numeric(column)
    feeds[[input$name]] <- np$array(values, dtype = kind)$reshape(-1L, 1L)
  }
  names <- vapply(session$get_outputs(), function(output) output$name, "")
  setNames(session$run(NULL, feeds), names) # r_indices, low, high (people x patterns), unusual (people x 1)
}

people <- read.csv("people.csv", check.names = FALSE)
result <- r_indices("model.onnx", people)
head(result$r_indices)
