# What the template does not have: its parameters are in parameters.tf.

variable "name" {
  description = "The name of the stack"
  type        = string
  default     = "driftless"
}

variable "template" {
  description = "The file of the template, such as the template-arm64.yaml of a release; null for that of this repository"
  type        = string
  default     = null
}

variable "zips" {
  description = "The zips of the functions by their names (webhook, reconcile, drift, capsule, dashboard, plan); one that is not named is that of cargo lambda build in this repository"
  type        = map(string)
  default     = {}
}

variable "tags" {
  description = "Tags of the stack, which CloudFormation copies to its resources, and of the bucket with its code"
  type        = map(string)
  default     = {}
}
