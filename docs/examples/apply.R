# R-indices in R by the command line: Rscript apply.R model.safetensors people.csv
# Needs the command rindices on the path (pip install rindices), and no package of R.
paths <- commandArgs(trailingOnly = TRUE)
out <- tempfile(fileext = ".tsv")
status <- system2("rindices", c("apply", shQuote(paths[1]), shQuote(paths[2]), "--out", shQuote(out)))
if (status != 0) stop("rindices apply did not succeed: see the line above")

result <- read.delim(out, na.strings = "n/a")
indices <- grep("^r[0-9]+$", names(result), value = TRUE)
print(summary(result[indices]))
unlike <- result[result$outside_training_range == "True", c("participant_id", "outside_because")]
cat(nrow(result), "people,", nrow(unlike), "of them unlike the training people\n")
