use evalexpr::{EvalexprError, Node, Operator as EngineOperator, Value, build_operator_tree};

use super::lexer::Operator;
use super::number::Number;

/// The names of the functions in a tree that represent operators. No name in an expression can be
/// spelled like these names, so expressions cannot call the operators by name.
pub(super) mod operation {
    /// Takes alternating operands and operators, and evaluates them from left to right.
    pub(in crate::calculator) const OPERATOR_CHAIN: &str = "left to right";
    /// Takes a base and an exponent.
    pub(in crate::calculator) const POWER: &str = "**";
    /// Negates one operand, as in `-x`.
    pub(in crate::calculator) const UNARY_MINUS: &str = "unary -";
    /// Returns its one operand unchanged, as in `+x`.
    pub(in crate::calculator) const UNARY_PLUS: &str = "unary +";
}

/// Builds nodes of evalexpr's operator tree.
///
/// The builder creates the nodes directly instead of printing an expression for evalexpr's parser,
/// because evalexpr's grammar is not Python's. No input of a caller reaches that parser.
pub(super) struct TreeBuilder {
    /// An empty node to clone and fill, because `Node` has no public constructor.
    empty_node: Node,
}

impl TreeBuilder {
    pub(super) fn new() -> Result<Self, EvalexprError> {
        build_operator_tree("").map(|empty_node| Self { empty_node })
    }

    pub(super) fn number(&self, number: Number) -> Node {
        self.constant(number.into())
    }

    /// Returns the node of an operator among the operands of a chain.
    pub(super) fn operator(&self, operator: Operator) -> Node {
        self.constant(Value::String(operator.symbol().to_owned()))
    }

    pub(super) fn variable(&self, name: &str) -> Node {
        let identifier = name.to_owned();
        self.node(
            EngineOperator::VariableIdentifierRead { identifier },
            vec![],
        )
    }

    pub(super) fn sequence(&self, items: Vec<Node>) -> Node {
        self.node(EngineOperator::Tuple, items)
    }

    /// Returns the node of a function call; the function receives its arguments as one tuple.
    pub(super) fn call(&self, function: &str, arguments: Vec<Node>) -> Node {
        let identifier = function.to_owned();
        let arguments = self.sequence(arguments);
        self.node(
            EngineOperator::FunctionIdentifier { identifier },
            vec![arguments],
        )
    }

    fn constant(&self, value: Value) -> Node {
        self.node(EngineOperator::Const { value }, vec![])
    }

    fn node(&self, operator: EngineOperator, children: Vec<Node>) -> Node {
        let mut node = self.empty_node.clone();
        *node.operator_mut() = operator;
        *node.children_mut() = children;
        node
    }
}
