use evalexpr::{EvalexprError, Node, Operator as EngineOperator, Value, build_operator_tree};

use super::lexer::Operator;
use super::number::Number;

/// The functions in a tree that represent operators. No name in an expression can be spelled like
/// them, so expressions cannot call them by name.
pub(super) mod operation {
    /// Alternating operands and operators, evaluated from left to right.
    pub(in crate::calculator) const CHAIN: &str = "left to right";
    /// Base and exponent.
    pub(in crate::calculator) const POWER: &str = "**";
    /// One operand after a `-`.
    pub(in crate::calculator) const MINUS: &str = "unary -";
    /// One operand after a `+`.
    pub(in crate::calculator) const PLUS: &str = "unary +";
}

/// Builds nodes of evalexpr's operator tree.
///
/// Trees are built directly instead of being printed and parsed again, because evalexpr's grammar
/// is not Python's; so no input of a caller reaches evalexpr's parser.
pub(super) struct TreeBuilder {
    /// `Node` has no public constructor, but can be cloned and filled.
    blank: Node,
}

impl TreeBuilder {
    pub(super) fn new() -> Result<Self, EvalexprError> {
        build_operator_tree("").map(|blank| Self { blank })
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
        let mut node = self.blank.clone();
        *node.operator_mut() = operator;
        *node.children_mut() = children;
        node
    }
}
