"""Measurements behind the numbers of the documentation; not part of the installed
package.
"""
